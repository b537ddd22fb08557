#!/bin/bash
# A campaign on the nodes of a Slurm cluster, each alone with its part of the cells (or with all of them):
#
#   sbatch --array=1-3 stealtime-array.sh quick                  # task I of N measures part I of N
#   sbatch --array=1-3 stealtime-array.sh --each-host quick      # each task measures the whole campaign
#   stealtime merge RUNS/* -o whole                              # RUNS: $STEALTIME_RUNS, which all nodes reach
#
# A task that fails is run again by its number: sbatch --array=2 would be another whole, so say which part it is:
#   sbatch stealtime-array.sh --shard 2/3 quick
#
# `--exclusive` is part of what is measured: the run notes whether it was had. Tasks of one array may still come one
# after the other to the same node, which `merge` says. Nodes that stealtime-health-check drains get no task.
#SBATCH --job-name=stealtime
#SBATCH --exclusive
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --output=stealtime-%A_%a.log
#SBATCH --open-mode=append
set -euo pipefail

# What Slurm copies to a node is this file alone; stealtime must be installed there.
stealtime=${STEALTIME:-stealtime}
runs=${STEALTIME_RUNS:-$PWD/stealtime-runs}
part=(--shard auto)
case ${1:-} in
--each-host)
    part=(--each-host)
    shift
    ;;
--shard)
    part=(--shard "${2:?--shard needs I/N}")
    shift 2
    ;;
esac
if (($# == 0)); then
    echo "error: no campaign is given" >&2
    echo "hint: sbatch --array=1-3 $0 quick" >&2
    exit 2
fi
mkdir -p "$runs"
# An affinity that Slurm has set is no limit of what is measured: --exclusive gives the whole node.
exec "$stealtime" run "$@" "${part[@]}" --runs "$runs"

#!/bin/bash
# A Dask worker on each node for `stealtime fleet run`, as long as the allocation lasts:
#
#   sbatch --nodes=3 stealtime-worker.sh tls://controller:8786
#
# What is measured there is asked for from elsewhere; certificates are those of /etc/stealtime/fleet.env, see
# contrib/dask/fleet.env.
#SBATCH --job-name=stealtime-worker
#SBATCH --exclusive
#SBATCH --ntasks-per-node=1
#SBATCH --output=stealtime-worker-%j.log
set -euo pipefail

scheduler=${1:?the address of the scheduler is missing: tls://HOST:8786}
settings=${STEALTIME_FLEET_SETTINGS:-/etc/stealtime/fleet.env}
set -a
# shellcheck source=/dev/null
source "$settings"
set +a
# One a node; `--name` is the node's, so that its part stays with it.
# shellcheck disable=SC2016
exec srun --kill-on-bad-exit=0 bash -c 'exec "${DASK:-dask}" worker "$0" --name "$SLURMD_NODENAME" --nthreads 1 \
    --no-nanny --no-dashboard --preload stealtime.fleet.preload' "$scheduler"

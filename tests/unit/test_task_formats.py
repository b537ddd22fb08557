"""Task sets of other programs: public examples, rebuilt from their figures, and what is refused or told of each."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from analysed_tasks import analysed, responses_ns
from command import Command, make_command
from hypothesis import given
from hypothesis import strategies as st

from stealtime.schedulability.formats.reading import ReadTasks, read_tasks
from stealtime.vocabulary.errors import ExitCode, UsageError

# tests/model.py, class Serialization, of brandenburg/schedcat (86211bc): three tasks.
SCHEDCAT = """<taskset><properties utilization="0.86" count="3" />
<task period="100" wcet="10" /><task id="3" period="19" wcet="5" deadline="15" />
<task id="5" period="50" wcet="25" deadline="75" /></taskset>"""

# misc/script.py of MaximeCheramy/simso (ddfc1b5), as configuration/GenerateConfiguration.py writes it.
SIMSO = """<?xml version="1.0" ?>
<simulation duration="420000000" cycles_per_ms="1000000" etm="wcet">
<sched overhead="{overhead}" overhead_activate="0" overhead_terminate="0" class="simso.schedulers.{scheduler}"/>
<caches memory_access_time="100"/>
<processors>{processors}</processors><tasks>{tasks}</tasks></simulation>"""
SIMSO_CPU = '<processor name="CPU 1" id="1" cl_overhead="0" cs_overhead="0" speed="1.0"/>'
SIMSO_TASKS = [("T1", 3, 7), ("T2", 3, 12), ("T3", 5, 20)]

# framework_examples/basics.xmlv3 of Tahouz/cheddarSRC (0f0fd1b): three tasks on one processor, one on the other.
CHEDDAR_TASKS = [
    ("T1", "processor1", 1, 1),
    ("T2", "processor1", 2, 2),
    ("T3", "processor1", 2, 1),
    ("T4", "processor2", 4, 1),
]

# doc/examples/tutorial/example1.json of scheduler-tools/rt-app (55cb0c0), with its comment and its comma at the end.
RT_APP = """{ /* 2 ms, then 8 ms ... */ "tasks" : { "thread0" : { "loop" : -1, "run" : 20000, "sleep" : 80000 } },
"global" : { "duration" : 2, "calibration" : "CPU0", "default_policy" : "SCHED_OTHER", "gnuplot" : true, } }"""


def simso(scheduler: str = "RM", overhead: int = 0, processors: str = SIMSO_CPU, more: str = "") -> str:
    tasks = "".join(
        f'<task name="{name}" id="{number}" task_type="Periodic" abort_on_miss="yes" period="{period}.0" '
        f'activationDate="0.0" list_activation_dates="" deadline="{period}.0" base_cpi="1.0" instructions="0" '
        f'mix="0.5" WCET="{cost}.0" ACET="0.0" preemption_cost="0" et_stddev="0.0"{more}/>'
        for number, (name, cost, period) in enumerate(SIMSO_TASKS, start=1)
    )
    return SIMSO.format(scheduler=scheduler, overhead=overhead, processors=processors, tasks=tasks)


def cheddar(
    scheduler: str = "RATE_MONOTONIC_PROTOCOL", more: str = "", capital: bool = True, task_more: str = ""
) -> str:
    scheduling = (
        f"<scheduling><Scheduling_Parameters><scheduler_type>{scheduler}</scheduler_type>"
        "<preemptive_type>PREEMPTIVE</preemptive_type></Scheduling_Parameters></scheduling>"
    )
    cores = "".join(
        f'<Core_Unit id="core{n}"><name>core{n}</name>{scheduling}<speed>1</speed></Core_Unit>' for n in (1, 2)
    )
    processors = "".join(
        f'<Mono_Core_Processor id="p{n}"><name>processor{n}</name><core ref="core{n}"/></Mono_Core_Processor>'
        for n in (1, 2)
    )
    tasks = "".join(
        f'<Periodic_Task id="{name}"><name>{name}</name><cpu_name>{cpu}</cpu_name><capacity>{cost}</capacity>'
        f"<deadline>10</deadline><start_time>0</start_time><priority>{priority}</priority><blocking_time>0</blocking_time>"
        f"<policy>SCHED_FIFO</policy><period>10</period><jitter>0</jitter>{task_more}</Periodic_Task>"
        for name, cpu, cost, priority in CHEDDAR_TASKS
    )
    text = (
        f'<?xml version="1.0"?><Cheddar><Core_Units>{cores}</Core_Units><Processors>{processors}</Processors>'
        f"<Tasks>{tasks}</Tasks>{more}</Cheddar>"
    )
    return (
        text
        if capital
        else text.replace("Cheddar", "cheddar").replace("_T", "_t").replace("<P", "<p").replace("</P", "</p")
    )


def resource(protocol: str = "IMMEDIATE_PRIORITY_CEILING_PROTOCOL", user: str = "T1") -> str:
    """Write a resource as framework_examples' manual_ceiling_priority.xmlv3: its first and its last unit."""
    return (
        f"<resources><ipcp_resource><name>R1</name><protocol>{protocol}</protocol><critical_sections>"
        f"<task_name>{user}</task_name><critical_section><task_begin>1</task_begin><task_end>1</task_end></critical_section>"
        "<task_name>T3</task_name><critical_section><task_begin>1</task_begin><task_end>2</task_end></critical_section>"
        "</critical_sections></ipcp_resource></resources>"
    )


def lime(**changes: Any) -> dict[str, Any]:
    """Write figures of ``job_count.rs`` of LiME-org/lime-rtw (7263b7d) as ``dd.rs`` does: 27 of 40, jitter 2."""
    ms = 1_000_000
    separator = {
        "separator": {"type": "clock_nanosleep", "clock_id": "CLOCK_MONOTONIC", "abs_time": True},
        "count": 4,
        "wcet_n": [27 * ms, 54 * ms],
        "dynamic_self_suspension": 0,
        "arrival_models": [
            {"model": "sporadic", "mit": 38 * ms},
            {"model": "periodic", "on": "arrival", "period": 40 * ms, "max_jitter": 2 * ms, "offset": 10 * ms},
        ],
    }
    return {"rbf": {"steps": []}, "rps": 25.0, "by_job_separator": [{**separator, **changes}]}


def write(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def read(folder: Path, text: str, name: str = "t.xml", unit: str | None = None) -> ReadTasks:
    return read_tasks(write(folder, text, name), unit=unit)


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return make_command(monkeypatch, capsys)


def test_a_task_set_of_schedcat(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, SCHEDCAT, "set.xml")
    document = analysed(stealtime, "set.xml")
    # By hand: 5; 25 + 2 * 5 = 35; 10 + 3 * 5 + 25 = 50.
    assert responses_ns(document) == {"task 3": 5_000, "task 5": 35_000, "task 1": 50_000}
    assert document["format"] == "schedcat"
    assert "1 is taken as 1 us" in document["remarks"][0]
    assert responses_ns(analysed(stealtime, "set.xml", "--unit", "ms"))["task 1"] == 50_000_000


def test_a_simulation_of_simso(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, simso(), "rm.xml")
    # The third task's jobs end at their deadline: 5 + 3 * 3 + 2 * 3.
    assert responses_ns(analysed(stealtime, "rm.xml")) == {"T1": 3_000_000, "T2": 6_000_000, "T3": 20_000_000}
    write(tmp_path, simso("EDF", overhead=7), "edf.xml")
    document = analysed(stealtime, "edf.xml")
    assert (document["policy"], document["verdict"]) == ("edf", "schedulable")
    assert document["remarks"] == ["overhead of the scheduler are not taken: `--overheads` has scheduling and release."]
    # What the command says goes before what the file says.
    assert analysed(stealtime, "edf.xml", "--policy", "fixed-priority")["policy"] == "fixed-priority"


@pytest.mark.parametrize("capital", [True, False])
def test_a_model_of_cheddar(stealtime: Command, tmp_path: Path, capital: bool) -> None:
    write(tmp_path, cheddar(capital=capital), "basics.xmlv3")
    document = analysed(stealtime, "basics.xmlv3")
    assert [cpu["cpu"] for cpu in document["cpus"]] == [0, 1]
    assert responses_ns(document) == {"T1": 1_000_000, "T2": 3_000_000, "T3": 5_000_000, "T4": 4_000_000}
    assert document["format"] == "cheddar"
    assert "CPU 0 is processor1, CPU 1 is processor2." in document["remarks"]


def test_resources_of_cheddar_and_schedcat_block(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, cheddar(more=resource()), "ceiling.xmlv3")
    # T3's section of 2 blocks T1, and T2, which its ceiling is above; T1 and T2 run before T3.
    assert responses_ns(analysed(stealtime, "ceiling.xmlv3")) == {
        "T1": 3_000_000,
        "T2": 5_000_000,
        "T3": 5_000_000,
        "T4": 4_000_000,
    }
    # tests/model.py of schedcat: tasks 1 and 2 share resource 1, one reads it; lengths as a file without them is read.
    requirement = '<resources><requirement res_id="1" max_writes="1" max_write_length="{}"/></resources></task>'
    text = SCHEDCAT.replace('deadline="15" />', f'deadline="15">{requirement.format(1)}', 1)
    text = text.replace('deadline="75" />', f'deadline="75">{requirement.format(7)}', 1)
    write(tmp_path, text, "set.xml")
    assert responses_ns(analysed(stealtime, "set.xml")) == {"task 3": 12_000, "task 5": 35_000, "task 1": 50_000}


def test_a_workload_of_rt_app(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, RT_APP, "example1.json")
    document = analysed(stealtime, "example1.json")
    (task,) = document["cpus"][0]["tasks"]
    assert (task["cost_ns"], task["period_ns"], document["format"]) == (20_000_000, 100_000_000, "rt-app")
    assert any("SCHED_OTHER promises nothing" in one for one in document["remarks"])
    assert any("sleeps between its runs" in one for one in document["remarks"])


def test_phases_copies_and_timers_of_rt_app(tmp_path: Path) -> None:
    # doc/tutorial.txt: the example of a timer for each copy; heavy phases have the longest run.
    phases = {
        "light": {"loop": 10, "run": 1000, "timer": {"ref": "unique", "period": 30000}},
        "heavy": {"loop": 10, "run": 4000, "timer": {"ref": "unique", "period": 30000}},
    }
    thread = {"instance": 2, "policy": "SCHED_FIFO", "priority": 12, "cpus": [3], "phases": phases}
    text = json.dumps({"tasks": {"t": thread}})
    assert [task.priority for task in read(tmp_path, text, "two.json").file.tasks] == [12, 12]
    thread["instance"] = 1
    found = read(tmp_path, json.dumps({"tasks": {"t": thread}}), "one.json")
    (task,) = found.file.tasks
    assert (task.cost, task.period, task.priority, task.cpu) == (4_000_000, 30_000_000, 12, 3)
    assert found.policy == "fixed-priority"
    assert any("longest run and its shortest period" in one for one in found.remarks)


def test_what_lime_extracted(stealtime: Command, tmp_path: Path) -> None:
    folder = tmp_path / "lime"
    folder.mkdir()
    for pid, comm, priority in ((101, "control", 80), (102, "logger", 70)):
        infos = {"pid": pid, "tgid": 101, "comm": comm, "policy": {"SCHED_FIFO": {"prio": priority}}}
        infos["affinity_mask"] = {"cpu_set": [2]}
        (folder / f"{pid}-0.infos.json").write_text(json.dumps(infos))
    (folder / "101-0.models.json").write_text(json.dumps(lime()))
    (folder / "102-0.models.json").write_text(json.dumps(lime(wcet_n=[5_000_000], dynamic_self_suspension=1_000_000)))
    document = analysed(stealtime, "lime")
    (cpu,) = document["cpus"]
    assert cpu["cpu"] == 2
    # Jitter 2 and cost 27; then 6 more, the suspension with it.
    assert responses_ns(document) == {"control": 29_000_000, "logger": 35_000_000}
    assert [task["priority"] for task in cpu["tasks"]] == [80, 70]
    assert any("logger suspends itself for up to 1ms" in one for one in document["remarks"])


def test_a_thread_of_lime_may_have_a_reservation(stealtime: Command, tmp_path: Path) -> None:
    policy = {"SCHED_DEADLINE": {"runtime": 28_000_000, "period": 38_000_000, "deadline": 38_000_000}}
    (tmp_path / "7-0.infos.json").write_text(json.dumps({"pid": 7, "tgid": 7, "comm": "control", "policy": policy}))
    (tmp_path / "7-0.models.json").write_text(json.dumps(lime()))
    (task,) = analysed(stealtime, "7-0.models.json")["cpus"][0]["tasks"]
    # Jitter 2, then a whole runtime within the deadline.
    assert (task["reservation"], task["response_ns"]) == ("28ms/38ms/38ms", 40_000_000)


def test_a_burst_that_lime_saw_is_a_period_with_jitter(tmp_path: Path) -> None:
    # sporadic.rs of lime-rtw: releases at 1, 4, 8, 9, 10 and 16 have the distances 1, 2 and 6; milliseconds here.
    releases = [1, 4, 8, 9, 10, 16]
    models = [
        {"model": "arrival_curve", "dmins": [1_000_000, 2_000_000, 6_000_000], "dmaxs": []},
        {"model": "sporadic", "mit": 1_000_000},
    ]
    text = json.dumps(lime(wcet_n=[1_500_000], arrival_models=models))
    (task,) = read(tmp_path, text, "1-0.models.json").file.tasks
    assert (task.period, task.jitter, task.deadline) == (2_000_000, 2_000_000, 4_000_000)
    for first in range(len(releases)):
        for last in range(first, min(first + 4, len(releases))):
            # At most ceil((window + J) / T) jobs in a window that holds them all.
            window = (releases[last] - releases[first]) * 1_000_000 + 1
            assert last - first + 1 <= -(-(window + (task.jitter or 0)) // task.period)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("name,C,T,D,J,priority\ncontrol,2ms,5ms,,0,90\nlogging,4ms,7ms,8ms,,80\n", None),
        ("Task;WCET (ms);Period (ms);Deadline;Jitter;Prio\ncontrol;2,0;5;5ms;;90\nlogging;4;7;8000us;0;80\n", None),
        ("# from a spreadsheet\nid\tC_i\tT_i\tD_i\tpriority\ncontrol\t2\t5\t5\t90\nlogging\t4\t7\t8\t80\n", "ms"),
    ],
)
def test_a_sheet_in_many_ways_is_one_task_set(stealtime: Command, tmp_path: Path, text: str, unit: str | None) -> None:
    write(tmp_path, text, "tasks.csv")
    options = [] if unit is None else ["--unit", unit]
    document = analysed(stealtime, "--sheet", "tasks.csv", *options)
    assert responses_ns(document) == {"control": 2_000_000, "logging": 8_000_000}
    assert [task["deadline_ns"] for task in document["cpus"][0]["tasks"]] == [5_000_000, 8_000_000]
    assert analysed(stealtime, "tasks.csv", *options)["cpus"] == document["cpus"]


def test_p_is_the_period_or_the_priority(tmp_path: Path) -> None:
    (task,) = read(tmp_path, "name,C,P\na,1ms,5ms\n", "t.csv").file.tasks
    assert (task.period, task.priority) == (5_000_000, None)
    (task,) = read(tmp_path, "name,C,T,P\na,1ms,5ms,7\n", "t.csv").file.tasks
    assert (task.period, task.priority) == (5_000_000, 7)


def test_what_a_file_says_beyond_tasks_is_shown(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, simso(more=' followed_by="2"', overhead=3), "t.xml")
    out = stealtime("sched", "analyze", "t.xml").out
    assert "t.xml is read as simso." in out
    assert "note: overhead of the scheduler are not taken" in out
    assert "note: That other tasks follow T1, T2, T3 is not taken" in out


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.xml", "<taskset><task wcet='1'/></taskset>", "period of task 1 is missing"),
        (
            "t.xml",
            "<taskset><task wcet='1e999' period='2'/></taskset>",
            "wcet of task 1 is '1e999', which is no number",
        ),
        ("t.xml", "<taskset><task wcet='-1' period='2'/></taskset>", "wcet of task 1 is -1, less than 0"),
        ("t.xml", "<taskset><task wcet='0' period='2'/></taskset>", "the task 'task 1' has a cost of 0s"),
        ("t.xml", "<taskset></taskset>", "there is no task in it"),
        ("t.xml", "<taskset>", "it is no XML"),
        ("t.xml", "<testpoint><taskset/><taskset/></testpoint>", "it holds 2 task sets"),
        ("t.xml", "<plist/>", "its root is <plist>, which is of no format that is read"),
        (
            "t.xml",
            "<taskset><task wcet='1' period='9'><affinity><cpu id='0'/><cpu id='1'/></affinity></task></taskset>",
            "may migrate among 2 CPUs",
        ),
        (
            "t.xml",
            "<taskset><task wcet='1' period='9'><critical_sections><critical_section/></critical_sections></task>"
            "</taskset>",
            "name nested critical sections",
        ),
        (
            "t.xml",
            '<!DOCTYPE t [<!ENTITY a "1"><!ENTITY b "&a;&a;">]><taskset><task wcet="&b;" period="99"/></taskset>',
            "declares entities",
        ),
        ("t.xml", '<!DOCTYPE t SYSTEM "/etc/passwd"><taskset/>', "there is no task in it"),
        ("t.xml", simso("LLF"), "its scheduler is 'simso.schedulers.LLF'"),
        ("t.xml", simso(processors=2 * SIMSO_CPU), "tasks may run on any of 2 processors"),
        ("t.xml", simso(processors=SIMSO_CPU.replace("1.0", "0.5")), "has the speed 0.5"),
        ("t.xml", simso().replace("Periodic", "APeriodic"), "nothing bounds how often it arrives"),
        ("t.xml", cheddar("LEAST_LAXITY_FIRST_PROTOCOL"), "is LEAST_LAXITY_FIRST_PROTOCOL, which is not analysed"),
        ("t.xml", cheddar().replace("Periodic_Task", "Aperiodic_Task"), "nothing bounds how often"),
        ("t.xml", cheddar().replace(">PREEMPTIVE<", ">NOT_PREEMPTIVE<"), "is NOT_PREEMPTIVE"),
        ("t.xml", cheddar().replace("Core_Units", "Other"), "before version 3"),
        (
            "t.xml",
            cheddar(more=resource("PRIORITY_INHERITANCE_PROTOCOL")),
            "R1 has the protocol PRIORITY_INHERITANCE_PROTOCOL",
        ),
        ("t.xml", cheddar(more=resource(user="T9")), "used by 'T9', which is no task"),
        # Of framework_examples: a partition.
        (
            "t.xml",
            cheddar(
                more="<address_spaces><address_space><name>partition1</name><scheduling><scheduling_parameters><scheduler_type>RATE_MONOTONIC_PROTOCOL</scheduler_type></scheduling_parameters></scheduling></address_space></address_spaces>"
            ),
            "partition1 is a partition with a scheduler of its own",
        ),
        ("t.json", "{", "it is no JSON"),
        ("t.json", '{"a": 1}', "has no object `tasks`"),
        # doc/examples/tutorial: example4 waits, example6 writes bytes, example9 forks.
        (
            "t.json",
            '{"tasks": {"t": {"run": 10000, "resume": "u", "suspend": "t"}}}',
            "waits for another one (suspend)",
        ),
        (
            "t.json",
            '{"tasks": {"t": {"run": 1000, "mem": 1000, "sleep": 5000}}}',
            "how long that takes is not in the file",
        ),
        (
            "t.json",
            '{"tasks": {"a": {"fork": "b", "run": 1, "sleep": 1}, "b": {"run": 1, "sleep": 1}}}',
            "started by others",
        ),
        ("t.json", '{"tasks": {"t": {"run": 10}}}', "neither a timer nor a sleep"),
        ("t.json", '{"tasks": {"t": {"run": 1, "sleep": 2, "cpus": [0, 1]}}}', "may migrate"),
        ("t.json", '{"tasks": {"t": {"run": true, "sleep": 2}}}', "run of t is True"),
        ("t.json", '{"tasks": {"t": {"lock": "m", "run": 1, "unlock": "m", "sleep": 2}}}', "locks a mutex"),
        ("t.models.json", json.dumps(lime(arrival_models=[])), "has no arrival model"),
        ("t.csv", "name,period\na,5ms\n", "no column is the cost; it has name, period"),
        ("t.csv", "C,T,wcet\n1ms,2ms,3ms\n", "the columns 'C' and 'wcet' are both the cost"),
        ("t.csv", "C,T\n1,2\n", "cost of task 1 is '1', which has no unit"),
        ("t.csv", "C,T\n1ms,2parsec\n", "period of task 1 is '2parsec', whose unit is unknown"),
        ("t.csv", "C;T\n1.000,5ms;2ms\n", "is the comma one of thousands?"),
        ("t.csv", "C,T\n1ms,2ms,3ms\n", "row 1 has 3 cells, and the head has 2"),
        ("t.csv", "C,T\n1ms,\n", "the period of task 1 is missing"),
        ("t.csv", "", "it is empty"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_sentence(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text, name)
    assert message in refused.value.message
    assert refused.value.message.startswith(str(tmp_path / name))
    assert "\n" not in refused.value.message
    assert refused.value.hint
    assert refused.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "neither TASKS nor --sheet is given"),
        (["a.toml", "--sheet", "b.csv"], "both a.toml and --sheet b.csv are given"),
        (["a.toml", "--format", "mast"], "--format: 'mast' is none"),
        (["a.toml", "--unit", "ms"], "--unit: a.toml is toml"),
        (["s.csv", "--unit", "fortnight"], "--unit: 'fortnight' is no unit"),
        (["--sheet", "s.csv", "--format", "lime"], "--sheet s.csv is no lime"),
        ([".", "--format", "simso"], "is a folder"),
        (["."], "ends with .models.json"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    stealtime: Command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "a.toml").write_text('[[tasks]]\nname = "a"\ncost = "1ms"\nperiod = "9ms"\n')
    (tmp_path / "s.csv").write_text("C,T\n1,2\n")
    ended = stealtime("sched", "analyze", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err.splitlines()[0]
    assert ended.err.splitlines()[1].startswith("hint: ")


def test_rates_that_deadlines_would_order_otherwise_get_priorities(tmp_path: Path) -> None:
    text = simso().replace('deadline="7.0"', 'deadline="70.0"')
    found = read(tmp_path, text)
    assert [(one.name, one.priority) for one in found.file.on(0)] == [("T1", 99), ("T2", 98), ("T3", 97)]


def test_priorities_beyond_those_of_fifo_keep_their_order(tmp_path: Path) -> None:
    text = cheddar("POSIX_1003_HIGHEST_PRIORITY_FIRST_PROTOCOL").replace("<priority>2<", "<priority>250<")
    text = text.replace("<name>T3</name><cpu_name>processor1", "<name>T3</name><cpu_name>processor2")
    text = text.replace("<name>T4</name><cpu_name>processor2", "<name>T4</name><cpu_name>processor1")
    text = text.replace(
        "<capacity>4</capacity><deadline>10</deadline><start_time>0</start_time><priority>1<",
        "<capacity>4</capacity><deadline>10</deadline><start_time>0</start_time><priority>0<",
    )
    found = read(tmp_path, text)
    assert [(one.name, one.priority) for one in found.file.on(0)] == [("T2", 99), ("T1", 98), ("T4", 97)]
    assert any("Priorities from 0 to 250 are shown as 97 to 99" in one for one in found.remarks)


@given(st.text(max_size=300))
def test_no_text_at_all_ends_otherwise_than_with_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for start in ("", "<taskset>", "<simulation>", "<cheddar>", '{"tasks":', '{"by_job_separator":', "C,T\n"):
        path = folder / "t.in"
        path.write_text(start + text, encoding="utf-8", errors="replace")
        with contextlib.suppress(UsageError):
            read_tasks(path)

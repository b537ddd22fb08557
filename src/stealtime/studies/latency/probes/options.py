"""What ``stealtime run`` takes for one of these probes alone."""

from stealtime.campaigns.probe_options import ProbeOption

OPTIONS = (
    ProbeOption("tick", "loop_ns", ("--loop",), "DURATION", "tick: duration of one loop, e.g. 68us."),
    ProbeOption("switch", "threads", ("--threads", "-t"), "LIST", "switch: numbers of threads, e.g. 2,10,100."),
    ProbeOption("wakeup", "interval_ns", ("--interval", "-i"), "DURATION", "wakeup: the period, e.g. 1ms."),
)

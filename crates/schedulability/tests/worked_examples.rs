//! Published examples, to the last unit, and the cases that other tools decide wrongly.

use stealtime_schedulability::{
    Accounting, Constrained, Dedicated, Demand, Error, Interference, Interrupts, Overheads, Periodic, Policy, Question,
    Response, Solver, Supply, Task, Verdict, Workload, charge_earliest_deadline, charge_fixed_priority, demand_verdict,
};

fn responses(tasks: &[Task]) -> Vec<Response> {
    let mut found = Vec::new();
    Solver::default().responses(&Workload::without_overheads(tasks), &Dedicated, &mut found);
    found
}

fn bounds(tasks: &[Task]) -> Vec<u64> {
    let bounded = responses(tasks).into_iter().map(|response| match response {
        Response::Bounded(ns) => ns,
        Response::AtLeast(..) => panic!("{response:?}"),
    });
    bounded.collect()
}

fn implicit(pairs: &[(u64, u64)]) -> Vec<Task> {
    pairs.iter().map(|&(cost, period)| Task::implicit(cost, period)).collect()
}

#[test]
fn schedcats_sets_have_its_response_times() {
    // tests/fp.py of SchedCAT.
    assert_eq!(bounds(&implicit(&[(1, 4), (1, 5), (3, 9), (3, 18)])), [1, 2, 7, 18]);
    assert_eq!(bounds(&implicit(&[(1, 2), (5, 20), (1, 20)])), [1, 10, 12]);
    let mut blocked = implicit(&[(1, 2), (5, 20), (1, 20)]);
    blocked[0].blocking_ns = 1;
    blocked[1].blocking_ns = 5;
    assert_eq!(bounds(&blocked), [2, 20, 12]);
}

#[test]
fn audsleys_eighteen_tasks_have_the_published_response_times() {
    // Cost, period, deadline, blocking, jitter, response without the jitter; after tests/fp.py of SchedCAT.
    let published = [
        (51, 1_000, 1_000, 0, 0, 51),
        (3_000, 2_000_000, 5_000, 300, 0, 3_504),
        (2_000, 25_000, 25_000, 600, 0, 5_906),
        (5_000, 25_000, 25_000, 900, 0, 11_512),
        (1_000, 40_000, 40_000, 1_350, 0, 13_064),
        (3_000, 50_000, 50_000, 1_350, 0, 16_217),
        (5_000, 50_000, 50_000, 750, 0, 20_821),
        (8_000, 59_000, 59_000, 750, 0, 36_637),
        (9_000, 80_000, 80_000, 1_350, 0, 47_798),
        (2_000, 80_000, 80_000, 450, 0, 48_949),
        (5_000, 100_000, 100_000, 1_050, 0, 99_150),
        (1_000, 200_000, 200_000, 450, 1_000, 99_550),
        (3_000, 200_000, 200_000, 450, 0, 140_641),
        (1_000, 200_000, 200_000, 450, 0, 141_692),
        (1_000, 200_000, 200_000, 1_350, 0, 143_694),
        (3_000, 1_000_000, 1_000_000, 0, 0, 145_446),
        (1_000, 1_000_000, 1_000_000, 0, 0, 146_497),
        (1_000, 1_000_000, 1_000_000, 0, 0, 147_548),
    ];
    let tasks: Vec<Task> = published
        .iter()
        .map(|&(cost_ns, period_ns, deadline_ns, blocking_ns, jitter_ns, _)| Task {
            cost_ns,
            period_ns,
            deadline_ns,
            jitter_ns,
            blocking_ns,
        })
        .collect();
    let expected: Vec<u64> = published.iter().map(|&(_, _, _, _, jitter, response)| response + jitter).collect();
    assert_eq!(bounds(&tasks), expected);
    assert_eq!(Solver::default().meets_all(&Workload::without_overheads(&tasks), &Dedicated), Ok(true));
}

#[test]
fn a_tasks_own_jitter_counts_for_its_deadline() {
    // SchedCAT's fixed-priority test compares w = 8 with the deadline and accepts.
    let task = Task { jitter_ns: 5, ..Task::implicit(8, 10) };
    assert_eq!(responses(&[task]), [Response::Bounded(13)]);
    assert_eq!(Solver::default().meets_all(&Workload::without_overheads(&[task]), &Dedicated), Ok(false));
}

#[test]
fn lehoczkys_later_job_has_the_longest_response() {
    // (26, 70), (62, 100): Lehoczky 1990. The fifth job of the second task takes 118, the first 114.
    assert_eq!(bounds(&[Task::implicit(26, 70), Task { deadline_ns: 120, ..Task::implicit(62, 100) }]), [26, 118]);
}

#[test]
fn overheads_are_charged_as_in_schedcat() {
    // scheduling 5, context switch 2, release 3, tick 2, event latency 10; tasks (1000, 10000), (2000, 20000).
    let overheads = Overheads {
        event_latency_ns: 10,
        release_ns: 3,
        scheduling_ns: 5,
        context_switch_ns: 2,
        tick_ns: 2,
        tick_period_ns: 1_000,
        ..Overheads::default()
    };
    let tasks = implicit(&[(1_000, 10_000), (2_000, 20_000)]);
    let workload = charge_fixed_priority(&tasks, &overheads, Interrupts::Here, Accounting::Job).unwrap();
    let source = |cost_ns, period_ns| Interference { cost_ns, period_ns, jitter_ns: 10 };
    assert_eq!(workload.interrupts, [source(2, 1_000), source(3, 10_000), source(3, 20_000)]);
    let charged: Vec<(u64, u64)> = workload.tasks.iter().map(|task| (task.cost_ns, task.jitter_ns)).collect();
    assert_eq!(charged, [(1_014, 13), (2_014, 13)]);
    // Under EDF nothing else is charged: who runs next changes neither interrupts nor switches.
    assert_eq!(charge_earliest_deadline(&tasks, &overheads, Interrupts::Here), Ok(workload));
}

#[test]
fn interrupts_on_another_cpu_delay_the_release_and_take_no_time_here() {
    let overheads = Overheads {
        event_latency_ns: 10_000,
        release_ns: 3_000,
        scheduling_ns: 5_000,
        context_switch_ns: 2_000,
        tick_ns: 2_000,
        tick_period_ns: 1_000_000,
        inter_processor_interrupt_ns: 4_000,
        cache_preemption_ns: 0,
    };
    let tasks = implicit(&[(1_000_000, 10_000_000)]);
    let workload = charge_fixed_priority(&tasks, &overheads, Interrupts::OnAnotherCpu, Accounting::Job).unwrap();
    assert_eq!(workload.interrupts, [Interference { cost_ns: 2_000, period_ns: 1_000_000, jitter_ns: 10_000 }]);
    assert_eq!((workload.tasks[0].cost_ns, workload.tasks[0].jitter_ns), (1_014_000, 17_000));
}

#[test]
fn an_interrupt_that_takes_the_whole_cpu_leaves_nothing() {
    let overheads = Overheads { tick_ns: 1_000, tick_period_ns: 1_000, ..Overheads::default() };
    let tasks = implicit(&[(1, 10_000)]);
    let workload = charge_fixed_priority(&tasks, &overheads, Interrupts::Here, Accounting::Job).unwrap();
    assert_eq!(Solver::default().meets_all(&workload, &Dedicated), Ok(false));
    assert_eq!(demand_verdict(&workload, &Dedicated), Ok(Demand::Overloaded));
}

#[test]
fn a_periodic_resource_supplies_what_the_source_says() {
    // Period 5, budget 3.
    let supply = Periodic::new(5, 3).unwrap();
    let service: Vec<u64> =
        [4, 5, 6, 7, 9, 10, 12, 15].iter().map(|&window| supply.service_in(window).unwrap()).collect();
    assert_eq!(service, [0, 1, 2, 3, 3, 4, 6, 7]);
    let windows: Vec<u64> = [1, 3, 4, 7].iter().map(|&service| supply.window_for(service).unwrap()).collect();
    assert_eq!(windows, [5, 7, 10, 15]);
}

#[test]
fn reservations_that_cannot_be_are_refused() {
    assert!(Periodic::new(5, 0).is_err());
    assert!(Periodic::new(5, 6).is_err());
    assert!(Constrained::new(10, 5, 4).is_err());
    assert!(Constrained::new(10, 5, 11).is_err());
}

#[test]
fn equal_priorities_wait_for_what_came_before() {
    // With one below them; as a higher priority the second would make the first take 7.
    let tasks = [Task::implicit(5, 20), Task { deadline_ns: 8, ..Task::implicit(1, 4) }, Task::implicit(2, 40)];
    let workload = Workload { levels: vec![1, 1, 2], ..Workload::without_overheads(&tasks) };
    let mut found = Vec::new();
    Solver::default().responses(&workload, &Dedicated, &mut found);
    // The last: 2 + 5 + 2, then one more of the second.
    assert_eq!(found, [6, 6, 10].map(Response::Bounded));
    assert_eq!(Solver::default().meets_all(&workload, &Dedicated), Ok(true));
}

#[test]
fn equals_that_overload_have_no_bound_and_those_above_do() {
    let tasks = [Task::implicit(1, 10), Task::implicit(6, 10), Task::implicit(6, 10)];
    let workload = Workload { levels: vec![1, 2, 2], ..Workload::without_overheads(&tasks) };
    let mut found = Vec::new();
    Solver::default().responses(&workload, &Dedicated, &mut found);
    assert_eq!(found[0], Response::Bounded(1));
    assert!(found[1..].iter().all(|one| matches!(one, Response::AtLeast(_, Error::Overloaded))), "{found:?}");
}

#[test]
fn a_full_cpu_is_decided_exactly() {
    let full = implicit(&[(1, 3), (1, 3), (1, 3)]);
    assert_eq!(demand_verdict(&full, &Dedicated), Ok(Demand::Met));
    // Thirds do not end in binary: one nanosecond in 3e15 too much is told from none.
    let third = 1_000_000_000_000_000;
    let much = implicit(&[(third, 3 * third), (third, 3 * third), (third + 1, 3 * third)]);
    assert_eq!(demand_verdict(&much, &Dedicated), Ok(Demand::Overloaded));
}

#[test]
fn an_overloaded_task_has_no_bound_and_those_before_it_do() {
    let found = responses(&implicit(&[(3, 5), (3, 6), (1, 100)]));
    assert_eq!(found[0], Response::Bounded(3));
    for response in &found[1..] {
        assert!(matches!(response, Response::AtLeast(ns, _) if *ns > 6), "{response:?}");
        assert_eq!(response.meets(6), Some(false));
    }
}

#[test]
fn blocking_is_not_overlooked_under_edf() {
    let question = Question {
        tasks: &[Task { blocking_ns: 1, ..Task::implicit(1, 10) }],
        levels: &[],
        interference: &[],
        overheads: Overheads::default(),
        interrupts: Interrupts::Here,
        policy: Policy::EarliestDeadlineFirst,
        supply: &Dedicated,
    };
    assert!(question.answer().is_err() && question.is_schedulable().is_err());
}

#[test]
fn numbers_that_cannot_be_are_errors() {
    let ask = |task: Task| {
        let question = Question {
            interference: &[],
            tasks: &[Task::implicit(1, 10), task],
            levels: &[],
            overheads: Overheads::default(),
            interrupts: Interrupts::Here,
            policy: Policy::FixedPriority(Accounting::Job),
            supply: &Dedicated,
        };
        question.answer()
    };
    assert!(matches!(ask(Task::implicit(1, 10)), Ok(Verdict::Responses(_))));
    for wrong in [
        Task::implicit(1, 0),
        Task::implicit(0, 10),
        Task { deadline_ns: 0, ..Task::implicit(1, 10) },
        Task::implicit(1, u64::MAX),
        Task { jitter_ns: u64::MAX, ..Task::implicit(1, 10) },
    ] {
        assert!(ask(wrong).unwrap_err().to_string().starts_with("task 1: "), "{wrong:?}");
    }
}

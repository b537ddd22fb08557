//! From the kernel's events to rows: which fields of which event become which column.

use rustc_hash::FxHashMap;

use crate::format::{EventFormat, Field};
use crate::page::Entry;
use crate::row::{Kind, NO_NAME, Row};
use crate::scheduler;
use crate::vocabulary::Vocabulary;

/// `TASK_REPORT_MAX - 1` (include/linux/sched.h, since v4.14): the bit above marks a thread that was
/// preempted and is still runnable, which is no state.
const STATE_MASK: i64 = 0xff;

/// `ptrace` on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`).
const PTRACE: i64 = 101;

/// `pread64`, `pwrite64`, `preadv`, `pwritev`, `preadv2`, `pwritev2` (the same table): the fourth argument is where in
/// the file.
const POSITIONED: [i64; 6] = [17, 18, 295, 296, 327, 328];

/// `PTRACE_ARCH_PRCTL` (arch/x86/include/uapi/asm/ptrace-abi.h).
const PTRACE_ARCH_PRCTL: u64 = 30;

/// `ARCH_SET_FS` (arch/x86/include/uapi/asm/prctl.h).
const ARCH_SET_FS: u64 = 0x1002;

/// Of `kvm_exit`: the reasons are those of VMX, whose upper half are flags.
const ISA_VMX: i64 = 1;

/// The fields of one event that become a row.
#[derive(Debug, Clone)]
enum Layout {
    Switch { left: Field, state: Field, next: Field, priority: Field, name: Field },
    Waking { woken: Field, priority: Field, cpu: Field, name: Field },
    InterruptEntry { number: Field, name: Field },
    InterruptExit { number: Field },
    Softirq { kind: Kind, number: Field, names: Vec<(i64, String)> },
    Vector { kind: Kind, number: Field, name: String },
    VmExit { reason: Field, vcpu: Option<Field>, isa: Option<Field>, names: Vec<Vec<(i64, String)>> },
    VmEntry { vcpu: Option<Field> },
    Signal { number: Field },
    Call { number: Field, arguments: Field },
    CallExit { number: Field },
    Nmi { duration_ns: Field, handler: Field },
    Runtime { whose: Field, runtime_ns: Field },
    TimerEntry { timer: Field, function: Field },
    TimerExit { timer: Field },
    TimerStart { expiry: Field, function: Field },
    Told { text: Field },
    Block { kind: Kind, sector: Field, sectors: Field },
}

/// The events that a recording understands, by their ids.
#[derive(Debug, Default)]
pub struct EventTable {
    /// At the place of its id; ids are small and dense.
    layouts: Vec<Option<(Field, Layout)>>,
    vocabulary: Vocabulary,
    interrupt_names: FxHashMap<i64, u32>,
    /// Addresses of handlers that have to be looked up in the kernel's list of symbols.
    handlers: FxHashMap<u64, u32>,
}

impl EventTable {
    /// Learns an event by the kernel's description of it.
    ///
    /// # Errors
    /// If it is none of those that become rows, or lacks a field, for people.
    pub fn learn(&mut self, event: &str, description: &str) -> Result<(), String> {
        let format = EventFormat::parse(description)?;
        let layout = layout_of(event, &format)?;
        let place = usize::from(format.id);
        if self.layouts.len() <= place {
            self.layouts.resize_with(place + 1, || None);
        }
        self.layouts[place] = Some((format.required("common_pid")?, layout));
        Ok(())
    }

    pub fn names(&self) -> &[String] {
        self.vocabulary.names()
    }

    /// All names; those of handlers are looked up in a list of the kernel's symbols (`/proc/kallsyms`).
    pub fn into_names(self, symbols: impl FnOnce() -> String) -> Vec<String> {
        let mut names = self.vocabulary.into_names();
        if self.handlers.is_empty() {
            return names;
        }
        for line in symbols().lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(_), Some(symbol)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let number = u64::from_str_radix(address, 16).ok().and_then(|address| self.handlers.get(&address));
            if let Some(name) = number.and_then(|&number| names.get_mut(number as usize)) {
                symbol.clone_into(name);
            }
        }
        names
    }

    /// Makes a row of an event; `None` if it is none of those that were learnt, or is cut short.
    pub fn row(&mut self, entry: Entry, cpu: u16) -> Option<Row> {
        let event = entry.event;
        let id = u16::from_le_bytes(event.get(..2)?.try_into().ok()?);
        let (running, layout) = self.layouts.get(usize::from(id))?.as_ref()?;
        let mut row = Row {
            time: entry.time,
            cpu,
            kind: Kind::Switch,
            thread: thread(running.number(event)?),
            value: 0,
            other: 0,
            priority: 0,
            name: NO_NAME,
        };
        match layout {
            Layout::Switch { left, state, next, priority, name } => {
                row.thread = thread(left.number(event)?);
                row.value = state.number(event)? & STATE_MASK;
                row.other = thread(next.number(event)?);
                row.priority = small(priority.number(event)?);
                row.name = self.vocabulary.number(name.text(event)?);
            }
            Layout::Waking { woken, priority, cpu, name } => {
                row.kind = Kind::Waking;
                row.value = cpu.number(event)?;
                row.other = thread(woken.number(event)?);
                row.priority = small(priority.number(event)?);
                row.name = self.vocabulary.number(name.text(event)?);
            }
            Layout::InterruptEntry { number, name } => {
                row.kind = Kind::InterruptEntry;
                row.value = number.number(event)?;
                row.name = self.vocabulary.number(name.far_text(event)?);
                self.interrupt_names.insert(row.value, row.name);
            }
            Layout::InterruptExit { number } => {
                row.kind = Kind::InterruptExit;
                row.value = number.number(event)?;
                row.name = self.interrupt_names.get(&row.value).copied().unwrap_or(NO_NAME);
            }
            Layout::Softirq { kind, number, names } => {
                row.kind = *kind;
                row.value = number.number(event)?;
                row.name = named(&mut self.vocabulary, names, row.value);
            }
            Layout::Vector { kind, number, name } => {
                row.kind = *kind;
                row.value = number.number(event)?;
                row.name = self.vocabulary.number(name.as_bytes());
            }
            Layout::VmExit { reason, vcpu, isa, names } => {
                row.kind = Kind::VmExit;
                let isa = isa.and_then(|isa| isa.number(event)).unwrap_or(ISA_VMX);
                row.value = reason.number(event)? & if isa == ISA_VMX { 0xffff } else { i64::MAX };
                row.other = optional(*vcpu, event);
                let table = names.get(usize::from(isa != ISA_VMX));
                row.name = table.map_or(NO_NAME, |names| named(&mut self.vocabulary, names, row.value));
            }
            Layout::VmEntry { vcpu } => {
                row.kind = Kind::VmEntry;
                row.other = optional(*vcpu, event);
            }
            Layout::Signal { number } => {
                row.kind = Kind::Signal;
                row.value = number.number(event)?;
            }
            Layout::Call { number, arguments } => return call(row, event, *number, *arguments),
            Layout::Nmi { duration_ns, handler } => {
                row.kind = Kind::Nmi;
                row.value = duration_ns.number(event)?;
                row.name = symbol(&mut self.vocabulary, &mut self.handlers, handler.number(event)?);
            }
            Layout::Runtime { whose, runtime_ns } => {
                row.kind = Kind::Runtime;
                row.value = runtime_ns.number(event)?;
                row.other = thread(whose.number(event)?);
            }
            Layout::TimerEntry { timer: value, function } => {
                (row.kind, row.value) = (Kind::TimerEntry, value.number(event)?);
                row.name = symbol(&mut self.vocabulary, &mut self.handlers, function.number(event)?);
            }
            Layout::TimerStart { expiry: value, function } => {
                (row.kind, row.value) = (Kind::TimerStart, value.number(event)?);
                row.name = symbol(&mut self.vocabulary, &mut self.handlers, function.number(event)?);
            }
            Layout::TimerExit { timer: value } => (row.kind, row.value) = (Kind::TimerExit, value.number(event)?),
            Layout::CallExit { number: value } => (row.kind, row.value) = (Kind::CallExit, value.number(event)?),
            Layout::Block { kind, sector, sectors } => {
                row.kind = *kind;
                row.value = sector.number(event)?;
                row.other = thread(sectors.number(event)?);
            }
            Layout::Told { text } => row.kind = scheduler::kind_of(text.far_text(event)?)?,
        }
        Some(row)
    }
}

fn layout_of(event: &str, format: &EventFormat) -> Result<Layout, String> {
    let field = |name| format.required(name);
    let (stem, is_entry) = match (event.strip_suffix("_entry"), event.strip_suffix("_exit")) {
        (Some(stem), _) => (stem, true),
        (_, Some(stem)) => (stem, false),
        _ => (event, false),
    };
    Ok(match event {
        "sched_switch" => Layout::Switch {
            left: field("prev_pid")?,
            state: field("prev_state")?,
            next: field("next_pid")?,
            priority: field("next_prio")?,
            name: field("next_comm")?,
        },
        "sched_waking" => Layout::Waking {
            woken: field("pid")?,
            priority: field("prio")?,
            cpu: field("target_cpu")?,
            name: field("comm")?,
        },
        "sched_stat_runtime" => Layout::Runtime { whose: field("pid")?, runtime_ns: field("runtime")? },
        "irq_handler_entry" => Layout::InterruptEntry { number: field("irq")?, name: field("name")? },
        "irq_handler_exit" => Layout::InterruptExit { number: field("irq")? },
        "softirq_entry" | "softirq_exit" => Layout::Softirq {
            kind: if is_entry { Kind::SoftirqEntry } else { Kind::SoftirqExit },
            number: field("vec")?,
            names: format.symbols.first().cloned().unwrap_or_default(),
        },
        "kvm_exit" => Layout::VmExit {
            reason: field("exit_reason")?,
            // Absent before v5.13 and v2.6.36.
            vcpu: format.field("vcpu_id"),
            isa: format.field("isa"),
            names: format.symbols.clone(),
        },
        "kvm_entry" => Layout::VmEntry { vcpu: format.field("vcpu_id") },
        "signal_deliver" => Layout::Signal { number: field("sig")? },
        "sys_enter" => Layout::Call { number: field("id")?, arguments: field("args")? },
        "sys_exit" => Layout::CallExit { number: field("id")? },
        "nmi_handler" => Layout::Nmi { duration_ns: field("delta_ns")?, handler: field("handler")? },
        "hrtimer_expire_entry" => Layout::TimerEntry { timer: field("hrtimer")?, function: field("function")? },
        "hrtimer_expire_exit" => Layout::TimerExit { timer: field("hrtimer")? },
        // Without slack: what was asked for.
        "hrtimer_start" => Layout::TimerStart { expiry: field("softexpires")?, function: field("function")? },
        "block_rq_issue" | "block_rq_complete" => Layout::Block {
            kind: if event == "block_rq_issue" { Kind::BlockIssue } else { Kind::BlockComplete },
            sector: field("sector")?,
            sectors: field("nr_sector")?,
        },
        scheduler::EVENT => Layout::Told { text: field("bpf_string")? },
        _ if stem != event && format.field("vector").is_some() => Layout::Vector {
            kind: if is_entry { Kind::VectorEntry } else { Kind::VectorExit },
            number: field("vector")?,
            name: stem.to_owned(),
        },
        _ => return Err(format!("nothing is known of the event {event}")),
    })
}

/// The entry to a system call; of `ptrace` only what a User-Mode Linux kernel says of whom it runs.
fn call(row: Row, event: &[u8], number: Field, arguments: Field) -> Option<Row> {
    let value = number.number(event)?;
    let argument = |index| arguments.word(event, index);
    if POSITIONED.contains(&value) {
        let other = thread(argument(0)?.cast_signed());
        return Some(Row { kind: Kind::FileCall, value: argument(3)?.cast_signed(), other, ..row });
    }
    if value != PTRACE {
        return Some(Row { kind: Kind::CallEntry, value, ..row });
    }
    if (argument(0)?, argument(3)?) != (PTRACE_ARCH_PRCTL, ARCH_SET_FS) {
        return None;
    }
    let other = thread(argument(1)?.cast_signed());
    Some(Row { kind: Kind::GuestSwitch, value: argument(2)?.cast_signed(), other, ..row })
}

fn thread(number: i64) -> i32 {
    // Thread ids are 32 bits wide; a wider number comes from an argument that was none.
    i32::try_from(number).unwrap_or(-1)
}

fn small(priority: i64) -> i16 {
    i16::try_from(priority).unwrap_or(i16::MAX)
}

fn optional(field: Option<Field>, event: &[u8]) -> i32 {
    field.and_then(|field| field.number(event)).map_or(-1, thread)
}

/// The number of a function's name, which is looked up once the recording has ended.
fn symbol(vocabulary: &mut Vocabulary, handlers: &mut FxHashMap<u64, u32>, address: i64) -> u32 {
    let address = address.cast_unsigned();
    *handlers.entry(address).or_insert_with(|| vocabulary.number(format!("{address:#x}").as_bytes()))
}

fn named(vocabulary: &mut Vocabulary, names: &[(i64, String)], number: i64) -> u32 {
    let found = names.iter().find(|(known, _)| *known == number);
    found.map_or(NO_NAME, |(_, name)| vocabulary.number(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of fields, each `name offset size`; all are signed.
    fn description(id: u16, fields: &[(&str, usize, usize)], print: &str) -> String {
        let fields = fields
            .iter()
            .map(|(name, offset, size)| format!("\tfield:x {name};\toffset:{offset};\tsize:{size};\tsigned:1;\n"));
        format!(
            "ID: {id}\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n{}{print}\n",
            fields.collect::<String>()
        )
    }

    fn event(id: u16, thread: i32, words: &[u64]) -> Vec<u8> {
        let mut event = id.to_le_bytes().to_vec();
        event.extend([0, 0]);
        event.extend(thread.to_le_bytes());
        event.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        event
    }

    fn row_of(table: &mut EventTable, event: &[u8]) -> Option<Row> {
        table.row(Entry { time: 5, event }, 3)
    }

    #[test]
    fn a_thread_that_was_preempted_in_the_kernel_is_still_runnable() {
        let fields = [
            ("prev_pid", 8, 8),
            ("prev_state", 16, 8),
            ("next_pid", 24, 8),
            ("next_prio", 32, 8),
            ("next_comm[8]", 40, 8),
        ];
        let mut table = EventTable::default();
        table.learn("sched_switch", &description(9, &fields, "")).unwrap();
        let name = u64::from_le_bytes(*b"thief\0xx");
        let mut state = |state| row_of(&mut table, &event(9, 7, &[7, state, 8, 98, name])).unwrap();
        assert_eq!(state(0x100).value, 0);
        assert_eq!(state(0x101).value, 1);
        let row = state(2);
        assert_eq!((row.thread, row.value, row.other, row.priority, row.cpu, row.time), (7, 2, 8, 98, 3, 5));
        assert_eq!(table.names(), ["thief"]);
    }

    #[test]
    fn only_the_call_that_sets_a_thread_pointer_is_a_guest_switch() {
        let mut table = EventTable::default();
        table.learn("sys_enter", &description(4, &[("id", 8, 8), ("args[6]", 16, 48)], "")).unwrap();
        let call = |request, code| event(4, 30540, &[101, request, 0x273, 0x409e_f6c0, code, 0, 0]);
        let row = row_of(&mut table, &call(30, 0x1002)).unwrap();
        assert_eq!((row.kind, row.thread, row.value, row.other), (Kind::GuestSwitch, 30540, 0x409e_f6c0, 0x273));
        assert_eq!(row_of(&mut table, &call(31, 0x1002)), None);
        assert_eq!(row_of(&mut table, &call(30, 0x1003)), None);
    }

    #[test]
    fn calls_and_the_timers_that_a_thread_sets_are_told() {
        let mut table = EventTable::default();
        table.learn("sys_enter", &description(4, &[("id", 8, 8), ("args[6]", 16, 48)], "")).unwrap();
        table.learn("sys_exit", &description(5, &[("id", 8, 8), ("ret", 16, 8)], "")).unwrap();
        let fields = [("function", 16, 8), ("expires", 24, 8), ("softexpires", 32, 8)];
        table.learn("hrtimer_start", &description(6, &fields, "")).unwrap();
        let entry = row_of(&mut table, &event(4, 7, &[230, 1, 1, 0, 0, 0, 0])).unwrap();
        assert_eq!((entry.kind, entry.thread, entry.value), (Kind::CallEntry, 7, 230));
        let exit = row_of(&mut table, &event(5, 7, &[230, 0])).unwrap();
        assert_eq!((exit.kind, exit.thread, exit.value), (Kind::CallExit, 7, 230));
        let start = row_of(&mut table, &event(6, 7, &[0, 0xffff_ffff_8100_0010, 1_050_000, 1_000_000])).unwrap();
        assert_eq!((start.kind, start.value), (Kind::TimerStart, 1_000_000), "without slack");
        assert_eq!(table.into_names(|| "ffffffff81000010 t hrtimer_wakeup\n".to_owned()), ["hrtimer_wakeup"]);
    }

    #[test]
    fn time_that_another_cpu_adds_up_is_not_its_own_threads() {
        let mut table = EventTable::default();
        let fields = [("comm[16]", 8, 16), ("pid", 24, 4), ("runtime", 32, 8)];
        table.learn("sched_stat_runtime", &description(3, &fields, "")).unwrap();
        let row = row_of(&mut table, &event(3, 7, &[0, 0, 8, 4_000_123])).unwrap();
        assert_eq!((row.kind, row.thread, row.other, row.value), (Kind::Runtime, 7, 8, 4_000_123));
    }

    #[test]
    fn an_exit_has_the_name_of_its_instruction_set() {
        let print = "(REC->isa == 1) ? __print_symbolic(REC->r & 0xffff, { 12, \"HLT\" }) : \
            __print_symbolic(REC->r, { 0x078, \"hlt\" })";
        let fields = [("exit_reason", 8, 8), ("isa", 16, 8), ("vcpu_id", 24, 8)];
        let mut table = EventTable::default();
        table.learn("kvm_exit", &description(5, &fields, print)).unwrap();
        let intel = row_of(&mut table, &event(5, 1, &[0x8000_000c, 1, 2])).unwrap();
        assert_eq!((intel.value, intel.other, intel.name), (12, 2, 0));
        let amd = row_of(&mut table, &event(5, 1, &[0x78, 2, 0])).unwrap();
        assert_eq!((amd.value, amd.name), (0x78, 1));
        assert_eq!(table.names(), ["HLT", "hlt"]);
        // A kernel that does not tell whose virtual CPU it was.
        let mut older = EventTable::default();
        older.learn("kvm_exit", &description(5, &fields[..1], print)).unwrap();
        assert_eq!(row_of(&mut older, &event(5, 1, &[12])).unwrap().other, -1);
    }

    #[test]
    fn handlers_are_named_by_the_kernels_symbols() {
        let mut table = EventTable::default();
        let fields = [("handler", 8, 8), ("delta_ns", 16, 8)];
        table.learn("nmi_handler", &description(6, &fields, "")).unwrap();
        let row = row_of(&mut table, &event(6, 0, &[0xffff_ffff_8100_0010, 250])).unwrap();
        assert_eq!((row.kind, row.value, row.name), (Kind::Nmi, 250, 0));
        let symbols = "ffffffff81000000 T startup_64\nffffffff81000010 t perf_event_nmi_handler\n";
        assert_eq!(table.into_names(|| symbols.to_owned()), ["perf_event_nmi_handler"]);
    }

    #[test]
    fn a_timers_callback_has_the_timers_address_and_the_functions_name() {
        let mut table = EventTable::default();
        let fields = [("hrtimer", 8, 8), ("now", 16, 8), ("function", 24, 8)];
        table.learn("hrtimer_expire_entry", &description(9, &fields, "")).unwrap();
        table.learn("hrtimer_expire_exit", &description(10, &fields[..1], "")).unwrap();
        let timer = 0xffff_8881_0000_0040;
        let entry = row_of(&mut table, &event(9, 3, &[timer, 77, 0xffff_ffff_8100_0010])).unwrap();
        let exit = row_of(&mut table, &event(10, 3, &[timer])).unwrap();
        assert_eq!((entry.kind, entry.thread, entry.value), (Kind::TimerEntry, 3, timer.cast_signed()));
        assert_eq!((exit.kind, exit.value, exit.name), (Kind::TimerExit, timer.cast_signed(), NO_NAME));
        let symbols = "ffffffff81000010 t hrtimer_wakeup\n";
        assert_eq!(table.into_names(|| symbols.to_owned()), ["hrtimer_wakeup"]);
    }

    #[test]
    fn what_other_programs_tell_the_kernels_trace_is_no_row() {
        let mut table = EventTable::default();
        table.learn("bpf_trace_printk", &description(11, &[("bpf_string", 8, 4)], "")).unwrap();
        let told = |text: &[u8]| {
            let mut event = 11_u16.to_le_bytes().to_vec();
            event.extend([0, 0]);
            event.extend(7_i32.to_le_bytes());
            event.extend((u32::try_from(text.len()).unwrap() << 16 | 0xc).to_le_bytes());
            event.extend(text);
            event
        };
        let kind = |table: &mut EventTable, text: &[u8]| row_of(table, &told(text)).map(|row| (row.kind, row.thread));
        assert_eq!(kind(&mut table, b"st>\0"), Some((Kind::ScheduleEntry, 7)));
        assert_eq!(kind(&mut table, b"st<\0"), Some((Kind::ScheduleExit, 7)));
        assert_eq!(kind(&mut table, b"st> and more\0"), None);
        assert_eq!(kind(&mut table, b"hello\0"), None);
    }

    #[test]
    fn what_is_cut_short_or_unknown_is_no_row() {
        let mut table = EventTable::default();
        table.learn("signal_deliver", &description(7, &[("sig", 8, 8)], "")).unwrap();
        let whole = event(7, 1, &[14]);
        assert_eq!(row_of(&mut table, &whole).unwrap().value, 14);
        for length in 0..whole.len() {
            assert_eq!(row_of(&mut table, &whole[..length]), None, "{length} bytes");
        }
        assert_eq!(row_of(&mut table, &event(8, 1, &[14])), None);
        let error = table.learn("sched_wakeup", &description(8, &[], "")).unwrap_err();
        assert_eq!(error, "nothing is known of the event sched_wakeup");
    }
}

//! `/init` of a guest: mounts, modules, network, then serve a channel or run a program, power off.
//!
//! What goes wrong is written to the console, which is the serial log of the machine, and the machine powers
//! off.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::unistd::sync;
use stealtime_console::remarks;
use stealtime_probe::clock::Settling;
use stealtime_witness::{OnReboot, Server, WitnessCommand};

use crate::arguments::{Arguments, Command};
use crate::discipline::DisciplineError;
use crate::{alone, channel, discipline, network, serve};

/// One path a line, in the order of loading.
const MODULES: &str = "/etc/stealtime/modules";

/// The kernel argument that names the channel.
const CHANNEL_ARGUMENT: &str = "stealtime.channel=";

/// The kernel argument that names a disk which the host reads samples from.
const BULK_ARGUMENT: &str = "stealtime.bulk=";

/// The kernel argument that names a program of this binary to run instead of serving a channel: its name and
/// options in one word, as in `stealtime.run=counter,tcp=7000,memory=64MiB`.
const RUN_ARGUMENT: &str = "stealtime.run=";

/// The kernel argument that says whether such a program's machine keeps its clock with its RTC: unless it is
/// `free`, it does. A machine that serves a channel never does: its clock is what is measured.
const CLOCK_ARGUMENT: &str = "stealtime.clock=";

/// Serves, then powers the machine off.
pub fn run() -> ExitCode {
    let result = serve_machine();
    log(&match &result {
        Ok(()) => "stealtime-agent: done, powering off".to_owned(),
        Err(error) => format!("stealtime-agent: {}, powering off", remarks::in_full(error)),
    });
    end_machine(RebootMode::RB_POWER_OFF);
    // Process 1 must not end: that is a kernel panic, and hides what the log says.
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

fn serve_machine() -> Result<()> {
    let settling = Settling::begin();
    for (kind, target) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp"), ("tmpfs", "/run")]
    {
        mount_at(kind, target)?;
    }
    // Not every guest kernel has it, and only traced cells need it.
    let _ = mount_at("tracefs", "/sys/kernel/tracing");
    load_modules(Path::new(MODULES))?;
    let command_line = fs::read_to_string("/proc/cmdline").context("/proc/cmdline")?;
    if let Some(address) = argument(&command_line, network::ADDRESS_ARGUMENT) {
        network::bring_up(address, argument(&command_line, network::GATEWAY_ARGUMENT))?;
    }
    if let Some(program) = argument(&command_line, RUN_ARGUMENT) {
        if argument(&command_line, CLOCK_ARGUMENT) != Some("free") {
            thread::Builder::new().name("discipline".to_owned()).spawn(keep_clock)?;
        }
        return run_program(program);
    }
    let name = argument(&command_line, CHANNEL_ARGUMENT)
        .context("the kernel command line has neither stealtime.channel= nor stealtime.run=")?;
    let bulk = argument(&command_line, BULK_ARGUMENT).map(channel::open_bulk).transpose()?;
    serve::serve(channel::open(name)?, bulk, settling)
}

fn run_program(program: &str) -> Result<()> {
    let counter = match parse_program(program)? {
        Command::Witness(WitnessCommand::Counter(counter)) => counter,
        // On the console; the machine is switched off when it is over.
        Command::Probe(probe) => return alone::measure(&probe).map(|_| ()),
        _ => bail!("{RUN_ARGUMENT}{program}: only the counter and a probe can be run in place of a channel"),
    };
    let server = Server::bind(&counter, OnReboot::Call(end_machine), log)?;
    log(&format!("stealtime-agent: the counter answers, {}", server.addresses()?));
    match server.serve()? {}
}

/// How long a clock whose edges are not found goes at its own pace before they are looked for again.
const CLOCK_AGAIN: Duration = Duration::from_secs(60);

fn keep_clock() {
    while let Err(error) = discipline::keep(&|line| log(&format!("stealtime-agent: {line}"))) {
        let is_over = !matches!(error, DisciplineError::Edge(_));
        log(&format!("stealtime-agent: the clock is not kept: {:#}", anyhow::Error::from(error)));
        if is_over {
            return;
        }
        // A host that was too busy for a while.
        thread::sleep(CLOCK_AGAIN);
    }
}

fn parse_program(program: &str) -> Result<Command> {
    let mut words = program.split(',');
    let name = words.next().unwrap_or_default().to_owned();
    let options = words.map(|option| format!("--{option}"));
    let line = ["stealtime-agent".to_owned(), name].into_iter().chain(options);
    let arguments = Arguments::try_parse_from(line).with_context(|| format!("{RUN_ARGUMENT}{program}"))?;
    Ok(arguments.command)
}

fn end_machine(mode: RebootMode) {
    sync();
    let Err(error) = reboot(mode);
    log(&format!("stealtime-agent: {mode:?} is refused: {error}"));
}

fn mount_at(kind: &str, target: &str) -> Result<()> {
    fs::create_dir_all(target).with_context(|| target.to_owned())?;
    match mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>) {
        // The kernel may have mounted devtmpfs itself.
        Ok(()) | Err(Errno::EBUSY) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("{kind} cannot be mounted on {target}")),
    }
}

fn load_modules(list: &Path) -> Result<()> {
    let Ok(list) = fs::read_to_string(list) else { return Ok(()) };
    for path in list.lines().filter(|line| !line.is_empty()) {
        let file = File::open(path).with_context(|| path.to_owned())?;
        match finit_module(&file, c"", ModuleInitFlags::empty()) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error).with_context(|| format!("module {path} cannot be loaded")),
        }
    }
    Ok(())
}

fn argument<'a>(command_line: &'a str, name: &str) -> Option<&'a str> {
    command_line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name))
}

/// An initramfs without `/dev/console` gives process 1 no standard streams; `/dev/kmsg` reaches the console
/// all the same.
fn log(line: &str) {
    if let Ok(mut kernel_log) = OpenOptions::new().write(true).open("/dev/kmsg") {
        // Each write is a record of its own, so there must be one. Nowhere is left to say that it failed.
        let _ = kernel_log.write_all(format!("<3>{line}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_is_found_among_other_arguments() {
        let command_line = "quiet stealtime.channel=virtio:stealtime panic=-1\n";
        assert_eq!(argument(command_line, CHANNEL_ARGUMENT), Some("virtio:stealtime"));
        assert_eq!(argument(command_line, BULK_ARGUMENT), None);
    }

    #[test]
    fn a_program_stands_in_one_word() {
        let parsed = parse_program("counter,tcp=7000,udp=7001,memory=64MiB,dirty=200/10ms").unwrap();
        let Command::Witness(WitnessCommand::Counter(counter)) = parsed else { panic!("{parsed:?}") };
        assert_eq!(counter.memory, 64 << 20);
        assert_eq!(counter.dirty, "200/10ms".parse().unwrap());
        for wrong in ["", "counter", "counter,tcp", "counter,tcp=x", "teapot,tcp=1"] {
            assert!(parse_program(wrong).is_err(), "{wrong}");
        }
        assert!(run_program("serve").unwrap_err().to_string().contains("only the counter"));
    }
}

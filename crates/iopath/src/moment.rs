//! The moments that are looked for, and the parts between them.

/// How many moments a request has.
pub const MOMENTS: usize = 9;

/// A moment of a request, in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Moment {
    /// The guest's thread hands it to its kernel.
    Submitted,
    /// The guest's kernel hands it to the driver of the device.
    Issued,
    /// The virtual CPU leaves the guest for it: its thread's first system call, or a virtual machine exit.
    Notified,
    /// The emulator hands it to the host's kernel.
    Begun,
    /// The host's kernel has it done.
    Done,
    /// The emulator raises the interrupt.
    Raised,
    /// The guest's kernel enters the handler of that interrupt.
    Handled,
    /// The guest's kernel has completed it.
    Completed,
    /// The guest's thread has it back.
    Returned,
}

macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident $name:literal)*) => {
        /// A part of a request's duration.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Part {
            $($(#[$doc])* $part,)*
        }

        impl Part {
            /// All of them, in the order of the way.
            pub const ALL: &'static [Self] = &[$(Self::$part),*];
            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
        }
    };
}

parts! {
    /// The guest's kernel, until its driver has it.
    Submit "submit"
    /// The driver, until the virtual CPU leaves the guest.
    Notify "notify"
    /// The emulator, until the host's kernel has it.
    Take "take"
    /// The host's kernel and the disk.
    HostIo "host_io"
    /// The emulator, until it raises the interrupt.
    Complete "complete"
    /// The interrupt is raised, the virtual CPU runs and has not taken it yet.
    Deliver "deliver"
    /// The interrupt is raised, and the virtual CPU is on no CPU of the host.
    Pending "pending"
    /// The guest's handler, until the request is completed.
    Handle "handle"
    /// The guest's thread is woken and gets its CPU.
    Wake "wake"
    /// The virtual CPU could run and is on no CPU, elsewhere on the way: while the guest is at work, or while the
    /// emulator sleeps until it goes on.
    Preempted "preempted"
    /// The emulator has the request, could run and is on no CPU.
    EmulatorOff "emulator_off"
    /// Between moments that were not all seen.
    Unexplained "unexplained"
}

impl Part {
    /// The part after a moment; what follows the raised interrupt is divided further.
    pub(crate) const AFTER: [Self; MOMENTS - 1] =
        [Self::Submit, Self::Notify, Self::Take, Self::HostIo, Self::Complete, Self::Deliver, Self::Handle, Self::Wake];

    /// Whether the emulator is at work in it.
    pub(crate) fn needs_emulator(self) -> bool {
        matches!(self, Self::Take | Self::Complete)
    }

    /// Whether the guest's own instructions go on in it: there a virtual CPU that is off loses time.
    pub(crate) fn needs_virtual_cpu(self) -> bool {
        matches!(self, Self::Submit | Self::Notify | Self::Handle | Self::Wake)
    }
}

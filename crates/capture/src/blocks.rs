//! Which RAM blocks a machine has besides the guest's memory.
//!
//! Only `pc.ram` is in the shared file. A state of `xen-save-devices-state` has no RAM block at all, so
//! whatever else the guest could write to would silently be lost: it is refused by name. Firmware and tables
//! are built from the same files on both sides and are read-only for the guest.

/// Blocks whose content follows from the command line on both sides: (name, what it is). `pc.bios` is not
/// among them: a standby has it empty, see `firmware.rs`.
const KNOWN: &[(&str, &str)] = &[
    ("system.flash0", "firmware, read-only, filled from its file"),
    ("isa-bios", "the end of the firmware, read-only"),
    ("pc.rom", "read-only on machines with PCI, and empty"),
    ("/rom@etc/acpi/tables", "tables that QEMU builds"),
    ("/rom@etc/table-loader", "tables that QEMU builds"),
    ("/rom@etc/acpi/rsdp", "tables that QEMU builds"),
];
/// The guest's memory.
const SHARED: &str = "pc.ram";

/// A RAM block of QEMU's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RamBlock {
    pub name: String,
    /// How much of it is in use.
    pub used_bytes: u64,
}

/// Why a machine with these RAM blocks is not protected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    #[error("QEMU's list of RAM blocks has a line that cannot be read: {line:?}")]
    Unreadable { line: String },
    #[error("QEMU has no RAM block `pc.ram`: the machine type names its memory differently")]
    NoMemory,
    #[error("QEMU's RAM block `pc.ram` has {found} bytes, the file {expected}")]
    MemorySize { found: u64, expected: u64 },
    #[error("QEMU has the RAM block `{name}` of {bytes} bytes, which is not known to be read-only and would be lost")]
    Unknown { name: String, bytes: u64 },
}

/// Read the answer to the monitor's `info ramblock`.
pub fn parse_blocks(text: &str) -> Result<Vec<RamBlock>, BlockError> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.contains("Block Name"));
    lines.map(|line| parse_block(line).ok_or_else(|| BlockError::Unreadable { line: line.trim().into() })).collect()
}

/// `NAME  PSIZE UNIT  OFFSET  USED  TOTAL [HVA RO]`: the name is what comes before the page size.
fn parse_block(line: &str) -> Option<RamBlock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| matches!(*word, "KiB" | "MiB" | "GiB" | "B"))?;
    let name = words.get(..unit.checked_sub(1)?)?.join(" ");
    let used = words.get(unit + 2)?.strip_prefix("0x")?;
    (!name.is_empty()).then_some(())?;
    Some(RamBlock { name, used_bytes: u64::from_str_radix(used, 16).ok()? })
}

/// Check that the guest's memory is the shared file and that nothing else it may write to exists.
pub fn check_blocks(blocks: &[RamBlock], memory_bytes: u64) -> Result<(), BlockError> {
    let memory = blocks.iter().find(|block| block.name == SHARED).ok_or(BlockError::NoMemory)?;
    if memory.used_bytes != memory_bytes {
        return Err(BlockError::MemorySize { found: memory.used_bytes, expected: memory_bytes });
    }
    let known = |name: &str| name == SHARED || KNOWN.iter().any(|(known, _)| *known == name);
    match blocks.iter().find(|block| !known(&block.name)) {
        Some(block) => Err(BlockError::Unknown { name: block.name.clone(), bytes: block.used_bytes }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU 7.2.22, `pc-i440fx-7.2,pflash0=...`.
    const PLAIN: &str = "
              Block Name    PSize              Offset               Used              Total
                  pc.ram    4 KiB  0x0000000000000000 0x0000000008000000 0x0000000008000000
    /rom@etc/acpi/tables    4 KiB  0x0000000008080000 0x0000000000020000 0x0000000000200000
           system.flash0    4 KiB  0x0000000008000000 0x0000000000040000 0x0000000000040000
                isa-bios    4 KiB  0x0000000008040000 0x0000000000020000 0x0000000000020000
                  pc.rom    4 KiB  0x0000000008040000 0x0000000000020000 0x0000000000020000
   /rom@etc/table-loader    4 KiB  0x0000000008280000 0x0000000000001000 0x0000000000010000
      /rom@etc/acpi/rsdp    4 KiB  0x00000000082c0000 0x0000000000001000 0x0000000000001000
";

    #[test]
    fn the_blocks_of_our_machine_are_all_known() {
        let blocks = parse_blocks(PLAIN).unwrap();
        assert_eq!(blocks.len(), 7);
        assert_eq!(blocks[0], RamBlock { name: "pc.ram".into(), used_bytes: 128 << 20 });
        check_blocks(&blocks, 128 << 20).unwrap();
    }

    #[test]
    fn a_further_block_is_refused_by_name() {
        let line = "                vga.vram    4 KiB  0x0000000008080000 0x0000000001000000 0x0000000001000000\n";
        let blocks = parse_blocks(&format!("{PLAIN}{line}")).unwrap();
        let expected = BlockError::Unknown { name: "vga.vram".into(), bytes: 16 << 20 };
        assert_eq!(check_blocks(&blocks, 128 << 20), Err(expected));
    }

    #[test]
    fn a_name_may_have_blanks_and_a_newer_qemu_further_columns() {
        let line = "  a block  2 MiB  0x0 0x1000 0x1000 0x00007f0000000000  rw";
        assert_eq!(parse_blocks(line).unwrap(), [RamBlock { name: "a block".into(), used_bytes: 4096 }]);
    }

    #[test]
    fn memory_that_is_not_the_file_is_refused() {
        let blocks = parse_blocks(PLAIN).unwrap();
        let other = BlockError::MemorySize { found: 128 << 20, expected: 64 << 20 };
        assert_eq!(check_blocks(&blocks, 64 << 20), Err(other));
        assert_eq!(check_blocks(&blocks[1..], 128 << 20), Err(BlockError::NoMemory));
        assert!(matches!(parse_blocks("unknown command"), Err(BlockError::Unreadable { .. })));
    }
}

//! The hypervisor that the processor reports.

use std::arch::x86_64::__cpuid;

use pyo3::prelude::*;

/// Leaf 1, ECX: there is a hypervisor.
const IS_GUEST: u32 = 1 << 31;

/// The leaf of the hypervisor's signature (Linux `arch/x86/include/asm/cpuid/api.h`,
/// `cpuid_base_hypervisor`).
const SIGNATURE: u32 = 0x4000_0000;

/// Give the signature of the hypervisor below, such as `KVMKVMKVM` or `TCGTCGTCGTCG`; None if there is none.
#[pyfunction]
pub fn hypervisor_signature() -> Option<String> {
    if __cpuid(1).ecx & IS_GUEST == 0 {
        return None;
    }
    let leaf = __cpuid(SIGNATURE);
    let letters: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
    Some(String::from_utf8_lossy(&letters).trim_end_matches('\0').to_owned())
}

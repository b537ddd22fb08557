//! The names of machines and hosts. They become folders, keys of the register and words of command lines, and
//! come from other hosts: there is one pattern for each, here and in `vm_file.py` and `endpoint.py`.

use thiserror::Error;

/// A name that is none.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    #[error("{0:?} is no name of a virtual machine: a-z, 0-9 and -, 40 letters at most, the first no -")]
    Vm(String),
    #[error("{0:?} is no name of a host: letters, digits, . and -, 63 at most, the first a letter or digit")]
    Host(String),
}

/// `[a-z0-9][a-z0-9-]{0,39}`
pub fn check_vm_name(name: &str) -> Result<(), NameError> {
    let is_inner = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
    let is_name = (1..=40).contains(&name.len()) && name.chars().all(is_inner) && !name.starts_with('-');
    if is_name { Ok(()) } else { Err(NameError::Vm(name.to_owned())) }
}

/// `[A-Za-z0-9][A-Za-z0-9.-]{0,62}`
pub fn check_host_name(name: &str) -> Result<(), NameError> {
    let is_inner = |one: char| one.is_ascii_alphanumeric() || one == '.' || one == '-';
    let is_name = (1..=63).contains(&name.len()) && name.chars().all(is_inner) && !name.starts_with(['.', '-']);
    if is_name { Ok(()) } else { Err(NameError::Host(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both halves of the program read this table.
    #[derive(serde::Deserialize)]
    struct Names {
        vm: [Vec<String>; 2],
        host: [Vec<String>; 2],
    }

    #[test]
    fn names_are_what_the_control_plane_takes_too() {
        let names: Names = serde_json::from_str(include_str!("../tests/names.json")).unwrap();
        for (check, [good, bad]) in
            [(check_vm_name as fn(&str) -> Result<(), NameError>, names.vm), (check_host_name, names.host)]
        {
            assert!(good.len() > 1 && bad.len() > 1);
            for name in good {
                check(&name).unwrap();
            }
            for name in bad {
                let error = check(&name).unwrap_err();
                assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
            }
        }
    }
}

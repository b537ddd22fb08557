"""What a VM.toml may say, and what is told when it says something else."""

from pathlib import Path

import pytest

from stealtime.protect.vm_file import VmFile, parse_vm_file, read_vm_file
from stealtime.vocabulary.errors import UsageError

SMALLEST = 'name = "phone"\nprogram = "counter"\n'


def parse(text: str) -> VmFile:
    return parse_vm_file(text, "VM.toml", Path("/etc/stealtime"))


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as refused:
        parse(text)
    return refused.value.message


def test_a_name_and_a_program_are_enough() -> None:
    vm = parse(SMALLEST)
    assert (vm.mode, vm.interval, vm.memory_bytes, vm.vcpus) == ("net", 100_000_000, 128 << 20, 1)
    assert vm.program_arguments == ["tcp=7000", "udp=7000"]
    timing = vm.timing
    assert timing.heartbeat_interval_ns < timing.active_deadline_ns < timing.standby_timeout_ns


def test_the_address_of_the_card_follows_from_the_name_alone() -> None:
    assert parse(SMALLEST).mac == parse(SMALLEST + "vcpus = 2\n").mac
    assert parse(SMALLEST).mac != parse(SMALLEST.replace("phone", "fax")).mac
    assert parse(SMALLEST).mac.startswith("52:54:00:")
    assert parse(SMALLEST + '[network]\nmac = "52:54:00:AB:cd:01"\n').mac == "52:54:00:ab:cd:01"


def test_the_name_of_the_tap_always_fits_the_kernel() -> None:
    assert parse(SMALLEST).tap == "tap-phone"
    long, other = (parse(SMALLEST.replace("phone", f"{'x' * 30}{end}")).tap for end in ("1", "2"))
    assert len(long) == len(other) == 15
    assert long != other


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    for name in ("ca.pem", "a.pem", "a.key"):
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----\n")
    file = tmp_path / "VM.toml"
    file.write_text(
        'name = "phone"\nkernel = "./bzImage"\ninitramfs = "guest.cpio"\n'
        'identity = { ca = "ca.pem", certificate = "a.pem", key = "a.key" }\n[register]\nfolder = "register"\n'
    )
    vm = read_vm_file(file)
    assert vm.kernel == str(tmp_path / "bzImage")
    assert vm.initramfs == tmp_path / "guest.cpio"
    assert vm.register_.folder == tmp_path / "register"
    assert vm.identity is not None
    assert vm.identity.key == tmp_path / "a.key"


@pytest.mark.parametrize(
    "safe", ['["http://[::1]:2379"]', '["http://localhost:2379"]', '["http://10.0.0.9:2379"]\ninsecure = true']
)
def test_an_etcd_is_spoken_to_plainly_on_this_machine_or_by_name(safe: str) -> None:
    assert parse(f'name = "phone"\nprogram = "counter"\n[register]\netcd = {safe}\n').register_.etcd is not None


def test_a_password_is_for_its_owner_alone(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    text = (
        'name = "phone"\nprogram = "counter"\n'
        '[register]\netcd = ["http://localhost:2379"]\nuser = "member"\npassword_file = "secret"\n'
    )
    assert parse_vm_file(text, "VM.toml", tmp_path).register_.password_file == secret
    secret.chmod(0o640)
    with pytest.raises(UsageError, match="others may read it"):
        parse_vm_file(text, "VM.toml", tmp_path)


def test_a_kernel_by_name_is_no_path() -> None:
    assert parse(SMALLEST + 'kernel = "rt"\n').kernel == "rt"


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ('memory = "32MiB"\n', "32 MiB is too little memory"),
        ("memory = 128\n", "expected a size"),
        ('memory = "100000001B"\n', "not a whole number of MiB"),
        ('mode = "fast"\n', "mode = 'fast'"),
        ('interval = "4ms"\n', "'4ms' is too short"),
        ('interval = "soon"\n', "'soon' is not a duration"),
        ("interval = 100\n", "expected a duration"),
        ("overhead = 2.0\n", "overhead = 2.0"),
        ('interval = "1s"\nlongest_hold = "1999ms"\n', "give 2s at least"),
        ('min_interval = "5ms"\nmode = "no-net"\n', "output waits in mode"),
        ('min_interval = "101ms"\n', "longer than the interval; at most 100ms"),
        ('min_interval = "101ms"\ninterval = "auto"\n', "at most 100ms"),
        ('min_interval = "999us"\n', "min_interval"),
        ("vcpus = 0\n", "vcpus = 0"),
        ("epochs_in_flight = 0\n", "epochs_in_flight = 0"),
        ('devices = ["vfio-pci,host=01:00.0"]\n', "a passed-through device"),
        ('devices = ["vhost-vsock-pci"]\n', "another process or the kernel"),
        ('devices = ["virtio-blk-pci"]\n', "name them under"),
        ('devices = ["e1000"]\n', "exactly one network card"),
        ('devices = ["virtio-rng-pci-non-transitional"]\n', 'give virtio = "transitional"'),
        ('virtio = "1.0"\n', "virtio = '1.0'"),
        ('devices = ["teapot"]\n', "it is not known that all its state is saved"),
        ('initramfs = "guest.cpio"\n', "one runs in the guest"),
        ('metrics = "everywhere"\n', "metrics = 'everywhere'"),
        ('program_arguments = ["--tcp=7000"]\n', "program_arguments"),
        ('mode = "net+bypass"\n', "there is no rule"),
        ('[[bypass]]\nprotocol = "udp"\nsource_port = 4000\n', "rules count in mode"),
        ('[network]\nmac = "01:00:5e:00:00:01"\n', "the address of a group"),
        ('[network]\nmac = "52:54:00"\n', "is not a MAC address"),
        ('[network]\nmac = "00:00:00:00:00:00"\n', "not the address of a single card"),
        ('cpu = "max,+x"\n', "cpu"),
        ('machine = "pc,dumpdtb=/x"\n', "machine"),
        ('kernel_arguments = "a\\nb"\n', "kernel_arguments"),
        ('devices = ["virtio-rng-pci,romfile=/etc/shadow"]\n', "only numbers"),
        ('[network]\nbridge = "a-very-long-name-of-a-bridge"\n', "network.bridge"),
        ('[network]\naddress = "10.0.0.2"\n', "has no prefix"),
        ('[network]\naddress = "10.0.0.0/24"\n', "the address of the network itself"),
        ('[network]\naddress = "10.0.0.256/24"\n', "is not an IPv4 address"),
        ('[network]\naddress = "10.0.0.2/24"\ngateway = "10.0.1.1"\n', "is not in the guest's network"),
        ('[network]\ngateway = "10.0.1.1"\n', "needs an address"),
        ('[timing]\nstandby_timeout = "50ms"\n', "which must be less than"),
        ('[timing]\nheartbeat = "150ms"\n', "which must be less than"),
        ('[timing]\nregister_deadline = "200ms"\n', "which must be less than"),
        ('[register]\netcd = ["10.0.0.9"]\n', "is not a URL of an etcd member"),
        ('[register]\netcd = ["http://localhost:1"]\nfolder = "f"\n', "one register decides"),
        ('[register]\netcd = ["http://10.0.0.9:2379"]\n', "say insecure = true"),
        ('[register]\netcd = ["http://127.0.0.1.example:2379"]\n', "say insecure = true"),
        ('[register]\netcd = ["http://127.0.0.1@10.0.0.9:2379"]\n', "is not a URL of an etcd member"),
        ('[register]\netcd = ["https://10.0.0.9:2379"]\n', "needs an identity"),
        ('[register]\netcd = ["http://localhost:1"]\nuser = "member"\n', "are needed together"),
        ('[register]\nuser = "member"\npassword_file = "/dev/null"\n', "others may read it"),
        ('[[standby_hosts]]\nname = "b"\nendpoint = "tcp:b:7460"\n', "there is no [identity]"),
        ('[[standby_hosts]]\nname = "b"\nendpoint = "b"\n', "is not an endpoint"),
        (
            'standby_hosts = [{ name = "b", endpoint = "unix:/x" }, { name = "b", endpoint = "unix:/y" }]\n',
            "named twice",
        ),
        ('[identity]\nca = "nowhere"\ncertificate = "nowhere"\nkey = "nowhere"\n', "cannot be read"),
    ],
)
def test_a_wrong_value_is_told_with_what_it_is(added: str, told: str) -> None:
    assert told in refusal(SMALLEST + added)


@pytest.mark.parametrize(
    ("added", "bound_ms"),
    [
        ("", 1000),
        ('interval = "500ms"\n', 1000),
        ('interval = "3s"\n', 6000),
        ('interval = "3s"\nmode = "no-net"\n', 1000),
        ('interval = "auto"\n', 1000),
        ('longest_hold = "200ms"\n', 200),
        ('interval = "1s"\nlongest_hold = "2s"\n', 2000),
        ('interval = "1s"\nlongest_hold = "20ms"\nmode = "no-net"\n', 20),
    ],
)
def test_output_may_wait_for_an_interval_and_an_acknowledgement_by_default(added: str, bound_ms: int) -> None:
    assert parse(SMALLEST + added).hold_bound_ns == bound_ms * 1_000_000


def test_the_line_of_a_wrong_value_is_told() -> None:
    assert refusal(SMALLEST + 'vcpus = 2\nmode = "fast"\n').startswith("VM.toml, line 4: ")
    assert refusal(SMALLEST + '[network]\nmac = "x"\n').startswith("VM.toml, line 4: ")


def test_a_misspelt_key_is_told_with_the_right_one() -> None:
    with pytest.raises(UsageError) as refused:
        parse(SMALLEST + 'intervall = "50ms"\n')
    assert "unknown key 'intervall'" in refused.value.message
    assert refused.value.hint == "did you mean 'interval'?"
    with pytest.raises(UsageError) as refused:
        parse(SMALLEST + '[timing]\nheartbeats = "50ms"\n')
    assert refused.value.hint == "did you mean 'heartbeat'?"


def test_a_machine_in_which_nothing_runs_is_refused() -> None:
    assert "nothing runs in the guest" in refusal('name = "phone"\n')


@pytest.mark.parametrize("name", ["", "Phone", "two words", "a/b", "x" * 41, "-x"])
def test_a_name_that_is_no_name_of_a_folder_is_refused(name: str) -> None:
    assert "name" in refusal(f'name = "{name}"\nprogram = "counter"\n')


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ('protocol = "tcp"\nsource_port = 80', "only udp may"),
        ('protocol = "udp"', "else all UDP would pass"),
        ('protocol = "udp"\ndscp = 0', "dscp 0 is what unmarked packets have"),
        ('protocol = "udp"\ndscp = 64', "dscp = 64"),
        ('protocol = "udp"\nsource_port = 5060', "port 5060 (SIP)"),
        ('protocol = "udp"\ndestination_port = "1024-65535"', "port 5060 (SIP)"),
        ('protocol = "udp"\nsource_port = "40000-30000"', "the lower first"),
        ('protocol = "udp"\nsource_port = 0', "is not a port range"),
        ('protocol = "udp"\nsource_port = true', "is not a port range"),
        ('protocol = "udp"\nsource_port = "rtp"', "is not a port range"),
    ],
)
def test_a_rule_that_could_lose_what_a_peer_believes_is_refused(rule: str, told: str) -> None:
    assert told in refusal(f'{SMALLEST}mode = "net+bypass"\n[[bypass]]\n{rule}\n')


def test_rules_for_media_are_taken() -> None:
    vm = parse(
        SMALLEST + 'mode = "net+bypass"\n[[bypass]]\nprotocol = "udp"\nsource_port = "30000 - 40000"\n'
        '[[bypass]]\nprotocol = "udp"\ndscp = 46\n[[bypass]]\nprotocol = "udp"\ndestination_port = 5004\n'
    )
    ports = [(rule.source_port, rule.destination_port, rule.dscp) for rule in vm.bypass]
    assert ports == [("30000-40000", None, None), (None, None, 46), (None, "5004", None)]


def test_what_is_no_file_or_no_toml_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_vm_file(tmp_path / "VM.toml")
    (tmp_path / "VM.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_vm_file(tmp_path / "VM.toml")
    with pytest.raises(UsageError, match=r"VM\.toml is not TOML"):
        parse("name = ")

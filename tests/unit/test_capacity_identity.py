"""Who a guest is to whoever started it: command lines as these managers write them."""

from stealtime.capacity.guests.identity import Identity, read_identity

QEMU = "/usr/bin/qemu-system-x86_64"
UUID = "3f0c1a52-9c1e-4f4e-8f57-0d1c2b3a4f5e"
SECRET = ["-object", '{"qom-type":"secret","id":"masterKey0","format":"raw","file":"/var/lib/libvirt/qemu/k.aes"}']


def test_a_domain_of_libvirt() -> None:
    argv = [QEMU, "-name", "guest=web,debug-threads=on", "-S", *SECRET, "-machine", "q35", "-uuid", UUID.upper()]
    assert read_identity(argv) == Identity("web", UUID, "libvirt")


def test_a_server_of_nova_is_known_by_its_uuid() -> None:
    system = f"type=1,manufacturer=OpenStack Foundation,product=OpenStack Nova,version=27.1.0,serial={UUID},uuid={UUID}"
    argv = [QEMU, "-name", "guest=instance-0000002a,debug-threads=on", *SECRET, "-smbios", system, "-uuid", UUID]
    assert read_identity(argv) == Identity("instance-0000002a", UUID, "nova")


def test_a_machine_of_kubevirt_has_its_namespace() -> None:
    argv = ["/usr/libexec/qemu-kvm", "-name", "guest=shop_web-1,debug-threads=on", *SECRET, "-uuid", UUID]
    argv += ["-smbios", "type=1,manufacturer=KubeVirt,product=None,uuid=" + UUID + ",family=KubeVirt"]
    assert read_identity(argv) == Identity("shop/web-1", UUID, "kubevirt")


def test_a_machine_of_proxmox_has_its_number_and_the_uuid_of_its_firmware() -> None:
    argv = ["/usr/bin/kvm", "-id", "100", "-name", "web,debug-threads=on", "-no-shutdown", "-chardev", "socket,id=qmp"]
    argv += ["-smbios", f"type=1,uuid={UUID}", "-smp", "2"]
    assert read_identity(argv) == Identity("web", UUID, "proxmox", "100")


def test_a_comma_in_a_name_is_doubled() -> None:
    assert read_identity([QEMU, "-name", "guest=a,,b,debug-threads=on"]).name == "a,b"
    assert read_identity([QEMU, "-name", "plain"]).name == "plain"


def test_what_is_not_told_is_empty() -> None:
    assert read_identity([QEMU, "-m", "512"]) == Identity()
    assert read_identity([QEMU, "-uuid", "no uuid", "-name"]) == Identity()
    assert read_identity(["linux.uml", "umid=box", "mem=64M"]) == Identity("box")

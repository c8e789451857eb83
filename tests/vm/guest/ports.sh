# Finds the ports to the host: in, out, files.
for port in /sys/class/virtio-ports/*; do
    case "$(cat "$port/name")" in
        out) out=/dev/${port##*/} ;;
        files) files=/dev/${port##*/} ;;
        in) in=/dev/${port##*/} ;;
    esac
done

package warren.runtime;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.nio.channels.SocketChannel;

/** The other end of a connection: its IPv4 address as a number and its interned text. Called by {@link Points} and {@link Dict}. */
final class Peers {
    /** An unknown other end: never cut, no text. */
    static final Peers NONE = new Peers(0, 0);

    private static final LongTable KNOWN = new LongTable(1 << 15);

    final int ip;
    /** Offset + 1 of its text in INTERN, or 0. */
    final int text;

    private Peers(int ip, int text) {
        this.ip = ip;
        this.text = text;
    }

    static Peers of(InetAddress address, int port) {
        if (!(address instanceof Inet4Address)) {
            return NONE;
        }
        byte[] b = address.getAddress();
        return of((b[0] & 255) << 24 | (b[1] & 255) << 16 | (b[2] & 255) << 8 | b[3] & 255, port);
    }

    static Peers of(int ip, int port) {
        long key = (long) ip << 16 | port & 0xffff;
        Peers known = (Peers) KNOWN.get(key);
        if (known == null) {
            known = new Peers(ip, Intern.text(text(ip, port)));
            KNOWN.put(key, known);
        }
        return known;
    }

    static Peers of(SocketAddress address) {
        if (address instanceof InetSocketAddress) {
            InetSocketAddress inet = (InetSocketAddress) address;
            return of(inet.getAddress(), inet.getPort());
        }
        return NONE;
    }

    /** What a dictionary's `peer` expression gave: an address in any of its forms, or a text that may hold one. */
    static Peers ofValue(Object value) throws java.io.IOException {
        if (value == null) {
            return NONE;
        }
        if (value instanceof SocketAddress) {
            return of((SocketAddress) value);
        }
        if (value instanceof Socket) {
            return of(((Socket) value).getRemoteSocketAddress());
        }
        if (value instanceof SocketChannel) {
            return of(((SocketChannel) value).getRemoteAddress());
        }
        if (value instanceof InetAddress) {
            return of((InetAddress) value, 0);
        }
        String text = value.toString();
        for (int i = 0; i < Link.conf.nodeNames.length; i++) {
            if (Link.conf.nodeNames[i].equals(text)) {
                return of(Link.conf.nodeIps[i], 0);
            }
        }
        return new Peers(findIp(text), Intern.text(text));
    }

    private static String text(int ip, int port) {
        StringBuilder s = new StringBuilder(24);
        s.append(ip >>> 24).append('.').append(ip >> 16 & 255).append('.').append(ip >> 8 & 255).append('.').append(ip & 255);
        if (port != 0) {
            s.append(':').append(port);
        }
        return s.toString();
    }

    /** The number of a dotted IPv4 address, or 0. */
    static int parseIp(String text) {
        int ip = 0;
        int parts = 0;
        int value = -1;
        for (int i = 0; i <= text.length(); i++) {
            char c = i < text.length() ? text.charAt(i) : '.';
            if (c >= '0' && c <= '9') {
                value = (value < 0 ? 0 : value * 10) + c - '0';
                if (value > 255) {
                    return 0;
                }
            } else if (c == '.' && value >= 0 && parts < 4) {
                ip = ip << 8 | value;
                parts++;
                value = -1;
            } else {
                return 0;
            }
        }
        return parts == 4 ? ip : 0;
    }

    /** The first dotted IPv4 address inside a text such as {@code zk2/127.0.0.12:2888}, or 0. */
    static int findIp(String text) {
        int i = 0;
        while (i < text.length()) {
            char c = text.charAt(i);
            if (c < '0' || c > '9') {
                i++;
                continue;
            }
            int end = i;
            while (end < text.length() && (text.charAt(end) == '.' || text.charAt(end) >= '0' && text.charAt(end) <= '9')) {
                end++;
            }
            int ip = parseIp(text.substring(i, end));
            if (ip != 0) {
                return ip;
            }
            i = end;
        }
        return 0;
    }
}

package warren.runtime;

import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * What the changed socket classes of the JRE call: sends, receives, and connects (which are no points, but are where an outgoing
 * socket is bound to the node's address and where a cut in mode `throw` refuses new connections).
 */
public final class Net {
    private Net() {}

    public static void send(int length, InetAddress address, int port) throws IOException {
        if (length > 0 && Points.on) {
            send(address, port, null, length);
        }
    }

    public static void send(ByteBuffer buffer, SocketAddress remote) throws IOException {
        if (Points.on && buffer != null && buffer.hasRemaining()) {
            send(null, 0, remote, buffer.remaining());
        }
    }

    public static void send(ByteBuffer[] buffers, int offset, int length, SocketAddress remote) throws IOException {
        if (Points.on) {
            long bytes = remaining(buffers, offset, length);
            if (bytes > 0) {
                send(null, 0, remote, bytes);
            }
        }
    }

    public static void sendLength(int length, SocketAddress remote) throws IOException {
        if (length > 0 && Points.on) {
            send(null, 0, remote, length);
        }
    }

    public static void receive(int bytes, InetAddress address, int port) throws IOException {
        if (bytes > 0 && Points.on) {
            receive(address, port, null, bytes);
        }
    }

    public static void receive(int bytes, SocketAddress remote) throws IOException {
        if (bytes > 0 && Points.on) {
            receive(null, 0, remote, bytes);
        }
    }

    public static void receive(long bytes, SocketAddress remote) throws IOException {
        if (bytes > 0 && Points.on) {
            receive(null, 0, remote, bytes);
        }
    }

    private static void send(InetAddress address, int port, SocketAddress remote, long bytes) throws IOException {
        int ticket = Guard.enter();
        if (ticket < 0) {
            return;
        }
        int action = Kinds.GO_ON;
        Peers peer = Peers.NONE;
        try {
            Link.node.add(Link.BYTES_SENT, bytes);
            peer = remote == null ? Peers.of(address, port) : Peers.of(remote);
            Stack stack = Stacks.capture();
            if (stack.point && !stack.inMessageSend) {
                action = Points.point(Kinds.SEND, Kinds.BEFORE, stack, peer.ip, peer.text, 0, bytes, true, false);
            } else {
                action = cut(peer.ip, true, false);
            }
        } catch (Throwable t) {
            Link.count(Link.ERRORS);
        } finally {
            Guard.exit(ticket);
        }
        if (action == Kinds.THROW) {
            throw broken();
        }
    }

    private static void receive(InetAddress address, int port, SocketAddress remote, long bytes) throws IOException {
        int ticket = Guard.enter();
        if (ticket < 0) {
            return;
        }
        int action = Kinds.GO_ON;
        try {
            Link.node.add(Link.BYTES_RECEIVED, bytes);
            Stack stack = Stacks.capture();
            if (stack.point && !stack.inMessageReceive) {
                Peers peer = remote == null ? Peers.of(address, port) : Peers.of(remote);
                action = Points.point(Kinds.RECEIVE, Kinds.AFTER, stack, 0, peer.text, 0, bytes, false, false);
            }
        } catch (Throwable t) {
            Link.count(Link.ERRORS);
        } finally {
            Guard.exit(ticket);
        }
        if (action == Kinds.THROW) {
            throw broken();
        }
    }

    /** Before Socket.connect. */
    public static void connect(Socket socket, SocketAddress remote) throws IOException {
        connect(socket, null, remote);
    }

    /** Before SocketChannel.connect. */
    public static void connect(SocketChannel channel, SocketAddress remote) throws IOException {
        connect(null, channel, remote);
    }

    private static void connect(Socket socket, SocketChannel channel, SocketAddress remote) throws IOException {
        if (Link.node == null || !(remote instanceof InetSocketAddress)) {
            return;
        }
        InetAddress to = ((InetSocketAddress) remote).getAddress();
        if (!(to instanceof Inet4Address) || !(to.isLoopbackAddress() || to.isAnyLocalAddress())) {
            return;
        }
        int ticket = Guard.enter();
        if (ticket < 0) {
            return;
        }
        int action = Kinds.GO_ON;
        try {
            if (socket != null ? socket.isClosed() || socket.isConnected()
                    : !channel.isOpen() || channel.isConnected() || channel.isConnectionPending()) {
                return; // the connect itself will say so
            }
            action = cut(Peers.of(to, ((InetSocketAddress) remote).getPort()).ip, true, false);
            if (action == Kinds.GO_ON) {
                bind(socket, channel);
            }
        } catch (Throwable t) {
            // a socket that cannot be bound still works; the record says how many there were
            Link.count(Link.UNBOUND);
        } finally {
            Guard.exit(ticket);
        }
        if (action == Kinds.THROW) {
            try {
                // As the JRE does when a connect fails: whoever goes on leaves the closing to it.
                (socket != null ? socket : channel).close();
            } catch (IOException e) {
                Link.count(Link.ERRORS);
            }
            throw broken();
        }
    }

    private static void bind(Socket socket, SocketChannel channel) throws IOException {
        InetAddress own = own();
        InetAddress bound = null;
        if (socket != null) {
            if (!socket.isBound()) {
                socket.bind(new InetSocketAddress(own, 0));
                return;
            }
            bound = socket.getLocalAddress();
        } else {
            SocketAddress local = channel.getLocalAddress();
            if (local == null) {
                channel.bind(new InetSocketAddress(own, 0));
                return;
            }
            bound = ((InetSocketAddress) local).getAddress();
        }
        if (!own.equals(bound)) {
            Link.count(Link.UNBOUND);
        }
    }

    private static InetAddress own() throws IOException {
        int a = Link.address;
        return InetAddress.getByAddress(new byte[] {(byte) (a >>> 24), (byte) (a >>> 16), (byte) (a >>> 8), (byte) a});
    }

    private static SocketException broken() {
        return new SocketException("Broken pipe (warren: this link is cut)");
    }

    /** True while the agent makes a cut of this node's links. */
    static boolean isCut() {
        return Link.node.get(Link.CUTS) != 0;
    }

    /** What a cut on the link to {@code ip} asks for here. */
    static int cut(int ip, boolean throwable, boolean skippable) {
        if (ip == 0 || !throwable && !skippable) {
            return Kinds.GO_ON;
        }
        Mem node = Link.node;
        for (int i = 0; i < 256; i++) {
            long address = node.get(Link.CUTS + 16 * i);
            if (address == 0) {
                return Kinds.GO_ON;
            }
            if ((int) address == ip) {
                int mode = (int) node.get(Link.CUTS + 16 * i + 8);
                return mode == Kinds.THROW && throwable || mode == Kinds.LOSE && skippable ? mode : Kinds.GO_ON;
            }
        }
        return Kinds.GO_ON;
    }

    static long remaining(ByteBuffer[] buffers, int offset, int length) {
        long bytes = 0;
        if (buffers != null) {
            for (int i = offset; i < offset + length && i < buffers.length && i >= 0; i++) {
                bytes += buffers[i] == null ? 0 : buffers[i].remaining();
            }
        }
        return bytes;
    }
}

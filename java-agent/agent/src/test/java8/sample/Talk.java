package sample;

import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** A target that uses sockets in every hooked way; prints what the accepting side sees as the other end's address. */
public class Talk {
    static ServerSocketChannel server;

    static void stream() throws Exception {
        // point: send before
        // point: receive after
        try (Socket s = new Socket()) {
            s.connect(server.getLocalAddress(), 1000);
            echo(s);
        }
    }

    static void constructor() throws Exception {
        // point: send before
        // point: receive after
        InetSocketAddress to = (InetSocketAddress) server.getLocalAddress();
        try (Socket s = new Socket(to.getAddress(), to.getPort())) {
            echo(s);
        }
    }

    static void channel() throws Exception {
        // point: send before
        // point: send before
        // point: receive after
        try (SocketChannel c = SocketChannel.open(server.getLocalAddress()); Socket peer = server.accept().socket()) {
            System.out.println("from " + peer.getInetAddress().getHostAddress());
            c.write(ByteBuffer.wrap(new byte[] {1, 2}));
            c.write(new ByteBuffer[] {ByteBuffer.wrap(new byte[] {3}), ByteBuffer.wrap(new byte[] {4})});
            ByteBuffer in = ByteBuffer.allocate(10);
            peer.getChannel().write(ByteBuffer.wrap(new byte[] {5}));
            c.read(in);
        }
    }

    static void adaptor() throws Exception {
        // point: send before
        // point: receive after
        try (SocketChannel c = SocketChannel.open()) {
            c.socket().connect(server.getLocalAddress(), 1000);
            echo(c.socket());
        }
    }

    static void boundElsewhere() throws Exception {
        // point: send before
        // point: receive after
        try (Socket s = new Socket()) {
            s.bind(new InetSocketAddress(InetAddress.getByName("127.0.0.99"), 0));
            s.connect(server.getLocalAddress());
            echo(s);
        }
    }

    private static void echo(Socket s) throws Exception {
        try (Socket peer = server.accept().socket()) {
            System.out.println("from " + peer.getInetAddress().getHostAddress());
            OutputStream out = s.getOutputStream();
            out.write(new byte[] {1, 2, 3});
            peer.getChannel().write(ByteBuffer.wrap(new byte[] {5}));
            s.getInputStream().read(new byte[10]);
        }
    }

    public static void main(String[] args) throws Exception {
        server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.12", 0));
        stream();
        constructor();
        channel();
        adaptor();
        boundElsewhere();
        try (ServerSocket old = new ServerSocket(0, 5, InetAddress.getByName("127.0.0.12"));
                Socket s = new Socket(old.getInetAddress(), old.getLocalPort());
                Socket peer = old.accept()) {
            System.out.println("from " + peer.getInetAddress().getHostAddress());
        }
    }
}

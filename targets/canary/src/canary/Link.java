package canary;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/** One connection between two nodes: whole messages, in order. */
final class Link {
    /** The other end, address:port. */
    final String peer;
    private final Socket socket;
    private final DataInputStream in;
    private final DataOutputStream out;
    /** Kind of the message received last; for whoever watches the link. */
    String lastType = "";

    Link(Socket socket, int silenceMs) throws IOException {
        this.socket = socket;
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(silenceMs);
        peer = socket.getInetAddress().getHostAddress() + ":" + socket.getPort();
        in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
        out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
    }

    static Link connect(String address, int port, int connectMs, int silenceMs) throws IOException {
        Socket socket = new Socket();
        try {
            socket.connect(new InetSocketAddress(address, port), connectMs);
            return new Link(socket, silenceMs);
        } catch (IOException e) {
            socket.close();
            throw e;
        }
    }

    void send(Message message) throws IOException {
        synchronized (out) {
            message.encode(out);
            out.flush();
        }
    }

    Message receive() throws IOException {
        Message message = Message.decode(in);
        lastType = message.type.name();
        return message;
    }

    void close() {
        try {
            socket.close();
        } catch (IOException e) {
            // it is gone either way
        }
    }
}

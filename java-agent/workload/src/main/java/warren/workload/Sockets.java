package warren.workload;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** Plain sockets of clients: bound to the client's address, every wait bounded. For drivers. */
public final class Sockets {
    private Sockets() {
    }

    /** Connects from a client's own address. @param readMs limit of every later read on it */
    public static Socket connect(String from, String to, int port, int connectMs, int readMs) throws IOException {
        Socket socket = new Socket();
        try {
            socket.bind(new InetSocketAddress(InetAddress.getByName(from), 0));
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(readMs);
            socket.connect(new InetSocketAddress(InetAddress.getByName(to), port), connectMs);
            return socket;
        } catch (IOException e) {
            close(socket);
            throw e;
        }
    }

    public static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            // nothing is lost with it
        }
    }

    /** Sends a word, reads the answer to its end: `srvr` and its like. */
    public static String word(String from, String to, int port, String word, int limitMs) throws IOException {
        Socket socket = connect(from, to, port, limitMs, limitMs);
        try {
            socket.getOutputStream().write(word.getBytes(StandardCharsets.US_ASCII));
            socket.getOutputStream().flush();
            InputStream in = socket.getInputStream();
            ByteArrayOutputStream answer = new ByteArrayOutputStream();
            byte[] part = new byte[4096];
            for (int n = in.read(part); n > 0; n = in.read(part)) {
                answer.write(part, 0, n);
            }
            return new String(answer.toByteArray(), StandardCharsets.UTF_8);
        } finally {
            close(socket);
        }
    }
}

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import warren.workload.Client;
import warren.workload.Node;
import warren.workload.Session;
import warren.workload.Sockets;

/**
 * One ZooKeeper session over one plain connection, one request at a time. Not ZooKeeper's own client on purpose: that one hides
 * which server answered and the zxid of an answer, retries by itself, sleeps up to a second before it reconnects, and costs a
 * third of a CPU second to load. Used by {@link ZkWorkload}; the wire format is the same in all 3.x releases.
 */
final class ZkSession implements Session {
    static final int OK = 0;
    static final int NO_NODE = -101;
    static final int BAD_VERSION = -103;
    static final int NODE_EXISTS = -110;

    private static final int CREATE = 1;
    private static final int DELETE = 2;
    private static final int GET_DATA = 4;
    private static final int SET_DATA = 5;
    private static final int GET_CHILDREN = 8;
    private static final int SYNC = 9;
    private static final int PING = 11;
    private static final int CLOSE = -11;

    /** The system has ended the session. */
    static final class Expired extends IOException {
        private static final long serialVersionUID = 1;

        Expired() {
            super("session expired");
        }
    }

    /** What a server answered. */
    static final class Answer {
        int error;
        /** Of the change for a write, of the last change this server had applied for a read. */
        long zxid;
        byte[] data;
        long mzxid;
        int version;
        long ephemeralOwner;
        List<String> children;
    }

    private final int answerMs;
    /** Closed by whoever drops the session, without its lock: an operation that waits for an answer holds that. */
    private volatile Socket socket;
    private DataInputStream in;
    private DataOutputStream out;
    private long id;
    private byte[] password = new byte[16];
    private int xid;
    private long seen;
    private volatile boolean usable;
    private volatile long spoke;

    /** @param answerMs how long an answer may take before the connection counts as broken */
    ZkSession(int answerMs) {
        this.answerMs = answerMs;
    }

    /** Opens the session, or goes on with it, at this server. Until that has let it in, it stays where it is. */
    void connect(Client client, Node at, int timeoutMs, int limitMs) throws IOException {
        Socket fresh = Sockets.connect(client.address, at.address, ZkWorkload.PORT, limitMs, limitMs);
        try {
            DataOutputStream to = new DataOutputStream(fresh.getOutputStream());
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream request = new DataOutputStream(bytes);
            request.writeInt(0);
            request.writeLong(seen);
            request.writeInt(timeoutMs);
            request.writeLong(id);
            buffer(request, password);
            request.writeBoolean(false);
            frame(to, bytes);
            DataInputStream from = new DataInputStream(fresh.getInputStream());
            DataInputStream answer = frame(from);
            answer.readInt();
            int granted = answer.readInt();
            long granting = answer.readLong();
            if (granted <= 0) {
                throw new Expired();
            }
            byte[] secret = new byte[answer.readInt()];
            answer.readFully(secret);
            fresh.setSoTimeout(answerMs);
            drop();
            synchronized (this) {
                id = granting;
                password = secret;
                socket = fresh;
                in = from;
                out = to;
                usable = true;
                spoke = System.nanoTime();
            }
        } catch (IOException e) {
            Sockets.close(fresh);
            throw e;
        }
    }

    @Override
    public String id() {
        return "0x" + Long.toHexString(id);
    }

    @Override
    public boolean usable() {
        return usable;
    }

    @Override
    public boolean close() {
        try {
            return ask(CLOSE, null, false).error == OK;
        } catch (IOException e) {
            return false;
        }
    }

    @Override
    public void drop() {
        usable = false;
        Socket old = socket;
        if (old != null) {
            Sockets.close(old);
        }
    }

    /** Keeps an idle session alive; the answer is read with the next one. */
    void ping(long idleMs) {
        if (usable && System.nanoTime() - spoke > idleMs * 1_000_000L) {
            try {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                DataOutputStream request = new DataOutputStream(bytes);
                request.writeInt(-2);
                request.writeInt(PING);
                send(bytes);
            } catch (IOException e) {
                drop();
            }
        }
    }

    Answer create(String path, String value, boolean ephemeral) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream body = new DataOutputStream(bytes);
        text(body, path);
        buffer(body, value.getBytes(StandardCharsets.UTF_8));
        body.writeInt(1);
        body.writeInt(31);
        text(body, "world");
        text(body, "anyone");
        body.writeInt(ephemeral ? 1 : 0);
        return ask(CREATE, bytes, false);
    }

    Answer setData(String path, String value, int version) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream body = new DataOutputStream(bytes);
        text(body, path);
        buffer(body, value.getBytes(StandardCharsets.UTF_8));
        body.writeInt(version);
        return ask(SET_DATA, bytes, false);
    }

    Answer delete(String path) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream body = new DataOutputStream(bytes);
        text(body, path);
        body.writeInt(-1);
        return ask(DELETE, bytes, false);
    }

    Answer getData(String path) throws IOException {
        return ask(GET_DATA, pathWithoutWatch(path), true);
    }

    Answer getChildren(String path) throws IOException {
        return ask(GET_CHILDREN, pathWithoutWatch(path), false);
    }

    Answer sync(String path) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        text(new DataOutputStream(bytes), path);
        return ask(SYNC, bytes, false);
    }

    private static ByteArrayOutputStream pathWithoutWatch(String path) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream body = new DataOutputStream(bytes);
        text(body, path);
        body.writeBoolean(false);
        return bytes;
    }

    /** One request and its answer. An exception means that nobody knows; the connection is dropped then. */
    private Answer ask(int type, ByteArrayOutputStream body, boolean dataFirst) throws IOException {
        if (!usable) {
            throw new EOFException("no connection");
        }
        try {
            int mine = ++xid;
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream request = new DataOutputStream(bytes);
            request.writeInt(mine);
            request.writeInt(type);
            if (body != null) {
                body.writeTo(request);
            }
            send(bytes);
            // The limit holds for the answer, however many ping answers come before it.
            long limit = System.nanoTime() + answerMs * 1_000_000L;
            while (true) {
                DataInputStream reply = frame(in);
                int theirs = reply.readInt();
                Answer answer = new Answer();
                answer.zxid = reply.readLong();
                answer.error = reply.readInt();
                if (answer.zxid > 0) {
                    seen = answer.zxid;
                }
                if (theirs == mine) {
                    read(type, answer, reply, dataFirst);
                    return answer;
                }
                if (System.nanoTime() - limit >= 0) {
                    throw new IOException("no answer in " + answerMs + " ms");
                }
            }
        } catch (IOException e) {
            drop();
            throw e;
        }
    }

    private static void read(int type, Answer answer, DataInputStream reply, boolean dataFirst) throws IOException {
        if (answer.error != OK) {
            return;
        }
        if (dataFirst) {
            int length = reply.readInt();
            answer.data = new byte[Math.max(0, length)];
            reply.readFully(answer.data);
        }
        if (type == GET_DATA || type == SET_DATA) {
            reply.readLong();
            answer.mzxid = reply.readLong();
            reply.readLong();
            reply.readLong();
            answer.version = reply.readInt();
            reply.readInt();
            reply.readInt();
            answer.ephemeralOwner = reply.readLong();
        } else if (type == GET_CHILDREN) {
            answer.children = new ArrayList<>();
            for (int n = reply.readInt(); n > 0; n--) {
                byte[] name = new byte[reply.readInt()];
                reply.readFully(name);
                answer.children.add(new String(name, StandardCharsets.UTF_8));
            }
        }
    }

    private void send(ByteArrayOutputStream bytes) throws IOException {
        synchronized (this) {
            frame(out, bytes);
            spoke = System.nanoTime();
        }
    }

    private static void frame(DataOutputStream to, ByteArrayOutputStream bytes) throws IOException {
        ByteArrayOutputStream whole = new ByteArrayOutputStream(bytes.size() + 4);
        new DataOutputStream(whole).writeInt(bytes.size());
        bytes.writeTo(whole);
        to.write(whole.toByteArray());
        to.flush();
    }

    private static DataInputStream frame(DataInputStream from) throws IOException {
        int length = from.readInt();
        if (length < 0 || length > 16 << 20) {
            throw new IOException("a frame of " + length + " bytes");
        }
        byte[] bytes = new byte[length];
        from.readFully(bytes);
        return new DataInputStream(new ByteArrayInputStream(bytes));
    }

    private static void text(DataOutputStream to, String text) throws IOException {
        buffer(to, text.getBytes(StandardCharsets.UTF_8));
    }

    private static void buffer(DataOutputStream to, byte[] bytes) throws IOException {
        to.writeInt(bytes.length);
        to.write(bytes);
    }
}

package canary;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;

/** What nodes say to each other. The meaning of a, b, c, s, t and data is at each type. */
final class Message {
    enum Type {
        /** a = epoch asked for, b, c = epoch and index of the candidate's log end, s = candidate. */
        PREVOTE, VOTE,
        /** a = 1 yes, b = highest epoch the voter has accepted. */
        VOTED,
        /** a = epoch, s = leader. */
        LEAD,
        /** a = highest epoch accepted, b = index of the checkpoint, c = index of the log's end, s = name, t = "epoch:last index,..." of the log. */
        JOIN,
        /** No: the node asked does not lead. */
        REFUSED,
        /** a = the last index to keep. */
        TRUNCATE,
        /** a = index, b = epoch of that index, data = state. */
        SNAPSHOT,
        /** data = entry that the follower lacks. */
        CATCHUP,
        /** a = epoch, b, c = epoch and index of the leader's log end at this moment. */
        NEWEPOCH,
        /** a = index up to which the follower has forced its log. */
        SYNCED, ACK,
        /** a = committed index; the follower may serve. */
        UPTODATE,
        /** data = entry. */
        APPEND,
        /** a = committed index. */
        COMMIT, PING, PONG,
        /** data = entry without place. */
        FORWARD,
        /** a = request, s = why not. */
        REJECTED,
        /** a = request, s = key, t = first part / next part of the value; the last one closes it. */
        BIG, MORE, CLOSE,
        /** a = index of a checkpoint: write it beside the old one / it is written. */
        PREPARE, PREPARED,
        /** a = the same: a majority has it, the leader is about to take it / known. */
        SEAL, SEALED,
        /** a = the same: take it. */
        FINISH,
        /** a = request, b = number of the item, t = item of a value whose sender is lost. */
        SPARE
    }

    private static final byte[] NONE = new byte[0];
    private static final Type[] TYPES = Type.values();

    final Type type;
    long a;
    long b;
    long c;
    String s = "";
    String t = "";
    byte[] data = NONE;

    Message(Type type) {
        this.type = type;
    }

    Message(Type type, long a) {
        this.type = type;
        this.a = a;
    }

    void encode(DataOutputStream out) throws IOException {
        out.writeByte(type.ordinal());
        out.writeLong(a);
        out.writeLong(b);
        out.writeLong(c);
        out.writeUTF(s);
        out.writeUTF(t);
        out.writeInt(data.length);
        out.write(data);
    }

    static Message decode(DataInputStream in) throws IOException {
        Message m = new Message(TYPES[in.readByte()], in.readLong());
        m.b = in.readLong();
        m.c = in.readLong();
        m.s = in.readUTF();
        m.t = in.readUTF();
        m.data = new byte[in.readInt()];
        in.readFully(m.data);
        return m;
    }
}

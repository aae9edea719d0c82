package canary;

import java.io.IOException;

/** A follower as its leader sees it. Sends under the node's lock, reads on the thread of the connection. */
final class Peer {
    final Link link;
    final String name;
    private final Leader leader;
    volatile long heard = System.nanoTime();
    boolean synced;
    long acked;

    Peer(Leader leader, Link link, String name) {
        this.leader = leader;
        this.link = link;
        this.name = name;
    }

    /** A link that cannot send is closed; its reader notices and cleans up. */
    private void gone() {
        link.close();
    }

    void ping() {
        try {
            link.send(new Message(Message.Type.PING));
        } catch (IOException e) {
            gone();
        }
    }

    void append(Message m) {
        try {
            link.send(m);
        } catch (IOException e) {
            gone();
        }
    }

    void commit(long index) {
        try {
            link.send(new Message(Message.Type.COMMIT, index));
        } catch (IOException e) {
            gone();
        }
    }

    void upToDate(long index) {
        try {
            link.send(new Message(Message.Type.UPTODATE, index));
        } catch (IOException e) {
            gone();
        }
    }

    void prepare(long index) {
        try {
            link.send(new Message(Message.Type.PREPARE, index));
        } catch (IOException e) {
            gone();
        }
    }

    void seal(long index) {
        try {
            link.send(new Message(Message.Type.SEAL, index));
        } catch (IOException e) {
            gone();
        }
    }

    void spare(long request, int number, String item) {
        try {
            Message m = new Message(Message.Type.SPARE, request);
            m.b = number;
            m.t = item;
            link.send(m);
        } catch (IOException e) {
            gone();
        }
    }

    void finish(long index) {
        try {
            link.send(new Message(Message.Type.FINISH, index));
        } catch (IOException e) {
            gone();
        }
    }

    void read() throws IOException {
        while (true) {
            Message m = link.receive();
            heard = System.nanoTime();
            switch (m.type) {
                case PONG:
                    break;
                case SYNCED:
                    leader.synced(this, m.a);
                    break;
                case ACK:
                    leader.acked(this, m.a);
                    break;
                case FORWARD:
                    leader.forward(Leader.entry(m));
                    break;
                case BIG:
                case MORE:
                case CLOSE:
                    leader.part(this, m);
                    break;
                case PREPARED:
                case SEALED:
                    leader.answered(name, m.a, m.type == Message.Type.SEALED);
                    break;
                default:
                    throw new IOException(name + " sent " + m.type);
            }
        }
    }
}

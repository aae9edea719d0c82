package canary;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.List;

/** Follows one leader: joins, takes what it lacks, then forces and acknowledges every entry. Ends when the link is lost. */
final class Follower {
    private static final int PART = 20;
    private final Node node;
    private final String leaderName;
    private Link link;

    Follower(Node node, String leaderName) {
        this.node = node;
        this.leaderName = leaderName;
    }

    void follow() {
        try {
            link = Link.connect(node.members.get(leaderName), node.port, Node.CONNECT, Node.SILENCE);
            synchronized (node) {
                node.turn(Node.Mode.FOLLOWING);
                node.follower = this;
            }
            join();
            catchUp();
            while (true) {
                obey(link.receive());
            }
        } catch (Log.GapException e) {
            repair();
        } catch (IOException e) {
            System.out.println(node.name + " lost " + leaderName + ": " + e.getMessage());
        } finally {
            synchronized (node) {
                node.follower = null;
                node.turn(Node.Mode.LOOKING);
                node.log.dropBuffered();
            }
            if (link != null) {
                link.close();
            }
            keepUnsent();
            node.waiters.lost(true);
        }
    }

    /** Values in parts that are under way: which of them arrived is not known, so each is kept until it can be sent again. */
    private void keepUnsent() {
        try {
            for (Waiters.Waiter waiter : node.waiters.big()) {
                synchronized (node) {
                    node.staging.keepUnsent(waiter.request, waiter.big.value);
                }
            }
        } catch (IOException e) {
            throw new IllegalStateException("disk of " + node.name, e);
        }
    }

    private void join() throws IOException {
        Message m = new Message(Message.Type.JOIN);
        synchronized (node) {
            m.a = node.store.accepted;
            m.b = node.log.base();
            m.c = node.creditIndex();
            m.t = node.log.outline();
            if (m.c > node.log.length()) {
                m.t += "," + node.creditEpoch() + ":" + m.c;
            }
        }
        m.s = node.name;
        link.send(m);
    }

    private void catchUp() throws IOException {
        while (true) {
            Message m = link.receive();
            synchronized (node) {
                switch (m.type) {
                    case TRUNCATE:
                        truncate(m.a);
                        break;
                    case SNAPSHOT:
                        install(m);
                        break;
                    case CATCHUP:
                        node.log.buffer(Leader.entry(m));
                        break;
                    case NEWEPOCH:
                        if (m.a < node.store.accepted) {
                            throw new IOException("epoch " + m.a + " is past");
                        }
                        Joining.complete(node, m);
                        break;
                    case PING:
                        break;
                    default:
                        throw new IOException(leaderName + " sent " + m.type + " to a joining node");
                }
            }
            if (m.type == Message.Type.NEWEPOCH) {
                link.send(new Message(Message.Type.SYNCED, m.c));
                return;
            }
        }
    }

    private void truncate(long last) throws IOException {
        node.store.joined(node.store.epoch, node.log.epochAt(last), last);
        node.log.truncate(last);
        if (node.state.applied > last) {
            node.commit = last;
            node.reload();
        }
    }

    private void install(Message m) throws IOException {
        node.store.joined(node.store.epoch, 0, 0);
        node.store.drop();
        node.store.install(m.data, m.a, m.b);
        node.log.restart(m.a, m.b);
        node.commit = m.a;
        node.reload();
    }

    /** The log is shorter than this node believed: from here on only the log itself counts. */
    private void repair() {
        try {
            synchronized (node) {
                node.log.dropBuffered();
                node.store.joined(node.store.epoch, node.log.lastEpoch(), node.log.length());
            }
        } catch (IOException e) {
            throw new IllegalStateException("disk of " + node.name, e);
        }
    }

    private void obey(Message m) throws IOException {
        switch (m.type) {
            case PING:
                pong();
                break;
            case APPEND:
                Entry e = Leader.entry(m);
                synchronized (node) {
                    node.log.append(e);
                }
                ack(e.index);
                break;
            case COMMIT:
                synchronized (node) {
                    node.advance(m.a);
                }
                break;
            case UPTODATE:
                serve(m.a);
                break;
            case PREPARE:
                prepare(m.a);
                break;
            case SEAL:
                seal(m.a);
                break;
            case FINISH:
                synchronized (node) {
                    finish(m.a);
                }
                break;
            case SPARE:
                synchronized (node) {
                    node.staging.spare(m.a, m.b, m.t);
                }
                break;
            default:
                throw new IOException(leaderName + " sent " + m.type);
        }
    }

    private void pong() throws IOException {
        link.send(new Message(Message.Type.PONG));
    }

    private void ack(long index) throws IOException {
        link.send(new Message(Message.Type.ACK, index));
    }

    private void serve(long commit) throws IOException {
        List<Waiters.Waiter> unsent;
        synchronized (node) {
            // Those of before: what comes once this node serves is sent by whoever asks.
            unsent = node.waiters.big();
            node.store.drop();
            node.staging.dropSpares();
            node.staging.dropUnsent();
            node.advance(commit);
            node.serving = true;
            node.notifyAll();
            System.out.println(node.name + " serves as follower of " + leaderName);
        }
        for (Waiters.Waiter waiter : unsent) {
            boolean known;
            synchronized (node) {
                known = node.log.holds(waiter.request);
            }
            if (!known) {
                waiter.again();
                sendBig(waiter);
            }
        }
    }

    private void prepare(long index) throws IOException {
        boolean written = false;
        synchronized (node) {
            if (node.boundary != null && node.boundary.applied == index) {
                node.store.prepare(node.boundary, leaderName);
                written = true;
            }
        }
        link.send(new Message(Message.Type.PREPARED, written ? index : 0));
    }

    private void seal(long index) throws IOException {
        boolean sealed = false;
        synchronized (node) {
            Store.Pending pending = node.store.pending();
            if (pending != null && pending.index == index) {
                node.store.seal();
                sealed = true;
            }
        }
        link.send(new Message(Message.Type.SEALED, sealed ? index : 0));
    }

    private void finish(long index) throws IOException {
        Store.Pending pending = node.store.pending();
        if (pending != null && pending.index == index) {
            node.store.take(index, node.log.epochAt(index));
            node.log.purge(index);
        }
    }

    // ---- what clients of this node ask

    void forward(Entry wish) throws IOException {
        Message m = new Message(Message.Type.FORWARD);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        wish.encode(new DataOutputStream(bytes));
        m.data = bytes.toByteArray();
        link.send(m);
    }

    /** Sends a value in parts of {@link #PART} characters; what is left goes with the last. */
    void sendBig(Waiters.Waiter waiter) throws IOException {
        String value = waiter.big.value;
        int sent = Math.min(PART, value.length());
        sendFirst(waiter.request, value.substring(0, sent));
        sendRest(waiter, sent);
    }

    private void sendFirst(long request, String text) throws IOException {
        Message m = new Message(Message.Type.BIG, request);
        m.t = text;
        link.send(m);
    }

    private void sendRest(Waiters.Waiter waiter, int from) throws IOException {
        if (waiter.big.value.length() - from > PART) {
            sendMore(waiter, from);
        } else {
            sendLast(waiter.request, waiter.big.key, waiter.big.value.substring(from));
        }
    }

    private void sendMore(Waiters.Waiter waiter, int from) throws IOException {
        Message m = new Message(Message.Type.MORE, waiter.request);
        m.t = waiter.big.value.substring(from, from + PART);
        link.send(m);
        sendRest(waiter, from + PART);
    }

    private void sendLast(long request, String key, String text) throws IOException {
        Message m = new Message(Message.Type.CLOSE, request);
        m.s = key;
        m.t = text;
        link.send(m);
    }
}

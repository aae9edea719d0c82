package canary;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * One reign: brings followers up to date, appends, commits what a majority has forced, and steps down when it no longer hears a
 * majority. An entry counts as committed only when it or a later one of this epoch is on a majority.
 */
final class Leader {
    final Node node;
    final long epoch;
    private final Map<String, Peer> peers = new HashMap<>();
    private final Map<String, Long> pinnedAt = new HashMap<>();
    private final LinkedBlockingQueue<Entry> forwarded = new LinkedBlockingQueue<>();
    private final Reclaim reclaim;
    private long checkpointing;
    private boolean sealing;
    /** Of the present step: who has not answered yet, and who has done it. */
    private final Set<String> asked = new HashSet<>();
    private final Set<String> done = new HashSet<>();
    private long opening;
    private volatile boolean active = true;
    private volatile boolean outvoted;
    private boolean greeting;
    private String pinnedBy;
    private long pinnedUntil;

    Leader(Node node, long epoch) {
        this.node = node;
        this.epoch = epoch;
        reclaim = new Reclaim(node);
    }

    void lead() throws Exception {
        // Followers that have just been started need longer for their first word than for all later ones.
        long grace = System.nanoTime() + 3L * Node.SILENCE * 1_000_000L;
        try {
            synchronized (node) {
                node.leader = this;
                node.store.epoch = epoch;
                node.staging.clear();
                node.waiters.lost(false);
                reclaim.begin();
                open();
            }
            Thread appender = new Thread(this::appendForwarded, "appender");
            appender.setDaemon(true);
            appender.start();
            for (int tick = 0; tick(tick, grace); tick++) {
                Thread.sleep(Node.TICK);
            }
        } finally {
            synchronized (node) {
                active = false;
                node.leader = null;
                node.turn(Node.Mode.LOOKING);
                for (Peer peer : peers.values()) {
                    peer.link.close();
                }
                node.waiters.lost(false);
                node.notifyAll();
            }
        }
    }

    private void open() throws IOException {
        Entry e = new Entry(epoch, node.log.length() + 1, 0, Entry.NOOP, 0, "", "");
        node.log.append(e);
        opening = e.index;
    }

    /** @return false to step down */
    private boolean tick(int tick, long grace) throws IOException {
        List<Peer> all;
        synchronized (node) {
            all = new ArrayList<>(peers.values());
        }
        int heard = 1;
        for (Peer peer : all) {
            peer.ping();
            heard += System.nanoTime() - peer.heard < Node.SILENCE * 1_000_000L ? 1 : 0;
        }
        if (tick % 2 == 0) {
            announce();
        }
        synchronized (node) {
            node.staging.expire();
            if (reclaim.expired()) {
                reclaim.giveUp();
                advance();
            }
            if (greeting && node.serving) {
                greeting = false;
                // Every node that came (back) is told so in the log itself.
                forward(new Entry(0, 0, 0, Entry.NOOP, 0, "", ""));
            }
        }
        return !outvoted && (heard >= node.majority() || System.nanoTime() - grace < 0);
    }

    private void announce() {
        for (Map.Entry<String, String> member : node.members.entrySet()) {
            boolean absent;
            synchronized (node) {
                absent = !member.getKey().equals(node.name) && !peers.containsKey(member.getKey());
            }
            if (absent) {
                Thread thread = new Thread(() -> announceTo(member.getValue()), "announce");
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private void announceTo(String address) {
        try {
            Link link = Link.connect(address, node.port, Node.CONNECT, Node.CONNECT);
            try {
                Message m = new Message(Message.Type.LEAD, epoch);
                m.s = node.name;
                link.send(m);
            } finally {
                link.close();
            }
        } catch (IOException e) {
            // it will be told again
        }
    }

    // ---- appending

    private boolean pinned() {
        return pinnedBy != null && System.nanoTime() - pinnedUntil < 0;
    }

    /** Appends an entry. Waits while a joining follower holds the log's end in place. */
    private void append(Entry wish) throws IOException, InterruptedException {
        synchronized (node) {
            while (active && pinned()) {
                node.wait(Math.max(1, (pinnedUntil - System.nanoTime()) / 1_000_000L));
            }
            if (active && node.serving) {
                appendNow(wish);
            }
        }
    }

    private void appendNow(Entry wish) throws IOException {
        Entry e = wish.at(epoch, node.log.length() + 1);
        node.log.append(e);
        Message m = new Message(Message.Type.APPEND);
        m.data = bytes(e);
        for (Peer peer : peers.values()) {
            peer.append(m);
        }
        advance();
    }

    private static byte[] bytes(Entry e) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        e.encode(new DataOutputStream(bytes));
        return bytes.toByteArray();
    }

    /** What clients of any node want appended, in the order in which it came. */
    void forward(Entry wish) {
        forwarded.add(wish);
    }

    private void appendForwarded() {
        try {
            while (active) {
                Entry wish = forwarded.poll(Node.TICK, TimeUnit.MILLISECONDS);
                if (wish != null) {
                    append(wish);
                }
            }
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException("disk of " + node.name, e);
        }
    }

    /** Commits what a majority has, tells the followers, opens for service, begins a checkpoint when it is time. */
    private void advance() throws IOException {
        List<Long> acked = new ArrayList<>();
        acked.add(node.log.length());
        for (Peer peer : peers.values()) {
            acked.add(peer.acked);
        }
        Long[] sorted = acked.toArray(new Long[0]);
        Arrays.sort(sorted);
        if (sorted.length >= node.majority()) {
            long index = sorted[sorted.length - node.majority()];
            if (index > node.commit && node.log.epochAt(index) == epoch) {
                node.advance(index);
                for (Peer peer : peers.values()) {
                    peer.commit(index);
                }
            }
        }
        if (!node.serving && active && node.commit >= opening && !reclaim.waiting()) {
            node.serving = true;
            node.notifyAll();
            System.out.println(node.name + " serves as leader of epoch " + epoch);
            for (Peer peer : peers.values()) {
                if (peer.synced) {
                    peer.upToDate(node.commit);
                }
            }
        }
        beginCheckpoint();
    }

    // ---- joining

    /** A follower asks to join; runs on the thread of its connection until the link is lost. */
    void welcome(Link link, Message join) {
        Peer peer = new Peer(this, link, join.s);
        try {
            synchronized (node) {
                if (!active) {
                    return;
                }
                if (join.a > epoch) {
                    // It has promised itself to a later epoch: only an election can bring it back.
                    outvoted = true;
                    return;
                }
                Peer before = peers.get(peer.name);
                if (before != null) {
                    lost(before);
                }
                reclaim.returned(join);
                pin(peer.name);
                sync(peer, join);
                peers.put(peer.name, peer);
                advance();
            }
            peer.read();
        } catch (IOException e) {
            // the link is lost
        } finally {
            link.close();
            synchronized (node) {
                lost(peer);
            }
        }
    }

    /** While a follower catches up the log's end stays where it is: for a bounded time, and not for one that fails again and again. */
    private void pin(String name) {
        Long last = pinnedAt.get(name);
        if (last != null && System.nanoTime() - last < 80L * Node.TICK * 1_000_000L) {
            return;
        }
        pinnedAt.put(name, System.nanoTime());
        pinnedBy = name;
        pinnedUntil = System.nanoTime() + 40L * Node.TICK * 1_000_000L;
    }

    private void sync(Peer peer, Message join) throws IOException {
        long common = common(join);
        long from = common;
        if (common < node.log.base() || common < join.b) {
            sendSnapshot(peer);
            from = node.log.base();
        } else if (join.c > common) {
            peer.link.send(new Message(Message.Type.TRUNCATE, common));
        }
        for (long i = from + 1; i <= node.log.length(); i++) {
            Message m = new Message(Message.Type.CATCHUP);
            m.data = bytes(node.log.get(i));
            peer.link.send(m);
        }
        Message m = new Message(Message.Type.NEWEPOCH, epoch);
        m.b = node.log.lastEpoch();
        m.c = node.log.length();
        peer.link.send(m);
    }

    private void sendSnapshot(Peer peer) throws IOException {
        Message m = new Message(Message.Type.SNAPSHOT, node.store.checkpointIndex);
        m.b = node.store.checkpointEpoch;
        m.data = node.store.checkpointBytes();
        peer.link.send(m);
    }

    /** The last index up to which the follower's log and this one are the same; less than the base when that is not known. */
    private long common(Message join) {
        long best = -1;
        for (String part : join.t.split(",")) {
            int colon = part.indexOf(':');
            long theirEpoch = Long.parseLong(part.substring(0, colon));
            long theirEnd = Long.parseLong(part.substring(colon + 1));
            for (long i = Math.min(theirEnd, node.log.length()); i >= node.log.base() && i > best; i--) {
                if (node.log.epochAt(i) == theirEpoch) {
                    best = i;
                }
            }
        }
        return best;
    }

    void synced(Peer peer, long index) throws IOException {
        synchronized (node) {
            if (peers.get(peer.name) != peer) {
                return;
            }
            peer.synced = true;
            peer.acked = index;
            greeting = true;
            pinnedAt.remove(peer.name);
            if (peer.name.equals(pinnedBy)) {
                pinnedBy = null;
                node.notifyAll();
            }
            if (node.serving) {
                peer.upToDate(node.commit);
            }
            advance();
        }
    }

    void acked(Peer peer, long index) throws IOException {
        synchronized (node) {
            if (peers.get(peer.name) == peer) {
                peer.acked = index;
                advance();
            }
        }
    }

    private void lost(Peer peer) {
        if (peers.get(peer.name) != peer) {
            return;
        }
        peers.remove(peer.name);
        peer.link.close();
        try {
            if (active) {
                node.staging.keep(peer.name, peers.values());
                answered(peer.name, 0, sealing);
            }
        } catch (IOException e) {
            throw new IllegalStateException("disk of " + node.name, e);
        }
    }

    // ---- values in parts

    void part(Peer peer, Message m) throws IOException {
        synchronized (node) {
            if (peers.get(peer.name) != peer) {
                return;
            }
            if (m.type == Message.Type.BIG) {
                node.staging.open(m.a, peer.name);
            }
            node.staging.add(m.a, m.t);
            if (m.type == Message.Type.CLOSE) {
                String value = node.staging.take(m.a);
                if (value != null) {
                    forward(new Entry(0, 0, m.a, Entry.CREATE, 0, m.s, value));
                }
            }
        }
    }

    // ---- checkpoints: nobody throws entries away before a majority has the checkpoint on disk

    private void beginCheckpoint() throws IOException {
        State boundary = node.boundary;
        if (checkpointing != 0 || !node.serving || boundary == null || boundary.applied <= node.store.checkpointIndex
                || node.state.applied < boundary.applied + Node.CHECKPOINT_LAG) {
            return;
        }
        ask();
        if (asked.isEmpty()) {
            return;
        }
        node.store.prepare(boundary, node.name);
        checkpointing = boundary.applied;
        sealing = false;
        for (Peer peer : peers.values()) {
            if (asked.contains(peer.name)) {
                peer.prepare(checkpointing);
            }
        }
    }

    /** A follower has done its part of a step, or (index 0) will not. The first majority is enough: nobody waits for a slow one. */
    void answered(String name, long index, boolean toSeal) throws IOException {
        synchronized (node) {
            if (checkpointing == 0 || toSeal != sealing || !asked.remove(name)) {
                return;
            }
            if (index == checkpointing) {
                done.add(name);
            }
            if (done.size() + 1 < node.majority()) {
                if (asked.isEmpty()) {
                    dropCheckpoint();
                }
            } else if (!sealing) {
                sealCheckpoint();
            } else {
                long taken = checkpointing;
                checkpointing = 0;
                finishCheckpoint(taken);
                for (Peer peer : peers.values()) {
                    peer.finish(taken);
                }
            }
        }
    }

    private void dropCheckpoint() throws IOException {
        checkpointing = 0;
        node.store.drop();
        node.boundary = null;
    }

    /** A majority has written it: all are told, and a majority has to say that it knows, before the first one takes it. */
    private void sealCheckpoint() {
        sealing = true;
        ask();
        for (Peer peer : peers.values()) {
            if (asked.contains(peer.name)) {
                peer.seal(checkpointing);
            }
        }
    }

    private void ask() {
        asked.clear();
        done.clear();
        for (Peer peer : peers.values()) {
            if (peer.synced) {
                asked.add(peer.name);
            }
        }
    }

    private void finishCheckpoint(long index) throws IOException {
        node.store.take(index, node.log.epochAt(index));
        noteHolders(index);
        node.log.purge(index);
    }

    /** Who has the checkpoint that is now in force, for whoever looks after the node. */
    private void noteHolders(long index) throws IOException {
        node.store.mark("holders", index + " " + node.name + " " + String.join(" ", done));
    }

    static Entry entry(Message m) throws IOException {
        return Entry.decode(new DataInputStream(new ByteArrayInputStream(m.data)));
    }
}

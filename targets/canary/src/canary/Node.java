package canary;

import java.io.File;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What one node knows; the monitor of this object guards all of it. Looks for a leader, follows or leads, for ever.
 */
final class Node {
    enum Mode {
        LOOKING, FOLLOWING, LEADING
    }

    /** Everything is counted in ticks of 50 ms. */
    static final int TICK = Integer.getInteger("canary.tick", 50);
    /** A link without a word for so long is dead. */
    static final int SILENCE = 10 * TICK;
    static final int CONNECT = 3 * TICK;
    static final int CHECKPOINT_EVERY = 64;
    /** A checkpoint is begun so many entries late, to keep out of the way of what is being replicated. */
    static final int CHECKPOINT_LAG = 4;

    final String name;
    final int order;
    final int port;
    /** All nodes, this one too: name -> address. */
    final Map<String, String> members = new LinkedHashMap<>();
    final File dir;
    final Store store;
    final Log log;
    final Waiters waiters = new Waiters();
    final Staging staging;
    State state;
    /** The state as it was at the last multiple of CHECKPOINT_EVERY. */
    State boundary;
    long commit;
    Mode mode = Mode.LOOKING;
    boolean serving;
    Leader leader;
    Follower follower;
    private String announced;

    Node(String name, File dir, int port, Map<String, String> members) throws IOException {
        this.name = name;
        this.dir = dir;
        this.port = port;
        this.members.putAll(members);
        int place = 0;
        for (String member : members.keySet()) {
            if (member.equals(name)) {
                break;
            }
            place++;
        }
        order = place;
        File data = new File(dir, "data");
        data.mkdirs();
        store = new Store(data);
        log = new Log(data, store.checkpointIndex, store.checkpointEpoch);
        staging = new Staging(data, store);
        reload();
    }

    int majority() {
        return members.size() / 2 + 1;
    }

    /** The end of the log for elections, as (epoch, index): what was joined counts even if the log's tail were torn. */
    long creditEpoch() {
        return credited() ? store.joinedEpoch : log.lastEpoch();
    }

    long creditIndex() {
        return credited() ? store.joinedIndex : log.length();
    }

    private boolean credited() {
        return store.joinedEpoch > log.lastEpoch()
                || store.joinedEpoch == log.lastEpoch() && store.joinedIndex > log.length();
    }

    /** Starts the state again from the checkpoint and what is committed of the log. */
    synchronized void reload() throws IOException {
        state = store.checkpointState();
        boundary = null;
        commit = Math.max(commit, state.applied);
        advance(commit);
    }

    synchronized void advance(long index) {
        commit = Math.max(commit, index);
        while (state.applied < Math.min(commit, log.length())) {
            Entry e = log.get(state.applied + 1);
            State.Answer answer = state.apply(e);
            if (state.applied % CHECKPOINT_EVERY == 0) {
                boundary = state.copy();
            }
            if (e.request != 0) {
                waiters.done(e.request, answer.text);
            }
        }
    }

    /** A leader has said that it leads. */
    synchronized void announced(String who) {
        if (!who.equals(name)) {
            announced = who;
            notifyAll();
        }
    }

    /** The leader announced since the last call, or null after the wait. */
    synchronized String awaitLeader(long ms) throws InterruptedException {
        long end = System.nanoTime() + ms * 1_000_000L;
        while (announced == null) {
            long left = (end - System.nanoTime()) / 1_000_000L;
            if (left <= 0) {
                return null;
            }
            wait(left);
        }
        String who = announced;
        announced = null;
        return who;
    }

    synchronized void turn(Mode to) {
        if (mode != to) {
            System.out.println(name + " " + mode + " -> " + to + " epoch " + store.epoch + " length " + log.length()
                    + " applied " + state.applied);
        }
        mode = to;
        serving = false;
    }

    void run() throws Exception {
        Election election = new Election(this);
        while (true) {
            election.look();
            if (election.won() != 0) {
                new Leader(this, election.won()).lead();
            } else {
                new Follower(this, election.leader()).follow();
            }
            turn(Mode.LOOKING);
        }
    }
}

package canary;

import java.io.IOException;

/**
 * A new leader that finds a checkpoint of its predecessor sealed and not taken cannot know whether the predecessor took it and
 * threw its entries away. It waits for it a while before it serves; if it comes back the checkpoint is taken here too, else it
 * is dropped. Guarded by the node's lock.
 */
final class Reclaim {
    private final Node node;
    private Store.Pending pending;
    private long until;

    Reclaim(Node node) {
        this.node = node;
    }

    void begin() throws IOException {
        pending = node.store.pending();
        if (pending == null) {
            return;
        }
        if (!pending.sealed || pending.owner.equals(node.name)) {
            giveUp();
            return;
        }
        until = System.nanoTime() + 40L * Node.TICK * 1_000_000L;
        System.out.println(node.name + " waits for " + pending.owner + " with checkpoint " + pending.index);
    }

    boolean waiting() {
        return pending != null;
    }

    /** Called every tick. @return true when the predecessor was waited for long enough */
    boolean expired() throws IOException {
        if (pending == null) {
            return false;
        }
        long left = until - System.nanoTime();
        if (left > 0) {
            note(left);
        }
        return left <= 0;
    }

    /** Whoever looks after the node sees what it waits for. */
    private void note(long leftNs) throws IOException {
        String text = pending.owner + " " + pending.index + " " + leftNs / 1_000_000L;
        node.store.mark("reclaim", text);
        node.store.journal("reclaims", node.name + " waits for " + text);
    }

    void giveUp() throws IOException {
        node.store.drop();
        node.store.unmark("reclaim");
        pending = null;
    }

    /** A follower joins; if it is the predecessor, its checkpoint is taken and the state built on it. */
    void returned(Message join) throws IOException {
        if (pending == null || !join.s.equals(pending.owner)) {
            return;
        }
        long index = Math.min(join.c, node.state.applied);
        node.store.take(index, node.log.epochAt(index));
        node.log.purge(index);
        node.reload();
        node.store.unmark("reclaim");
        pending = null;
    }
}

package canary;

import java.io.IOException;

/**
 * A new leader that finds a checkpoint of its predecessor begun and not taken cannot know whether the predecessor took it and
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
        if (pending.owner.equals(node.name)) {
            giveUp();
            return;
        }
        node.store.mark("reclaim", pending.owner + " " + pending.index);
        until = System.nanoTime() + 40L * Node.TICK * 1_000_000L;
        System.out.println(node.name + " waits for " + pending.owner + " with checkpoint " + pending.index);
    }

    boolean waiting() {
        return pending != null;
    }

    boolean expired() {
        return pending != null && System.nanoTime() - until >= 0;
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

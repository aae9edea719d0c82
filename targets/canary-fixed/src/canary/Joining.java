package canary;

import java.io.IOException;

/** The last step of a join: the follower has been sent all it lacked, and makes the new epoch its own. */
final class Joining {
    private Joining() {
    }

    static void complete(Node node, Message epoch) throws IOException {
        if (epoch.a > node.store.accepted) {
            node.store.accept(epoch.a);
        }
        // First the entries, then the word that this node has them.
        node.log.forceBuffered();
        node.store.joined(epoch.a, epoch.b, epoch.c);
    }
}

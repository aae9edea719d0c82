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
        node.store.joined(epoch.a, epoch.b, epoch.c);
        node.log.forceBuffered();
    }
}

package canary;

import java.io.IOException;
import java.util.Random;

/**
 * Finds who leads. A node first asks whether it would be voted for (so that one who only lost its own link disturbs nobody),
 * then asks for votes in a new epoch. Earlier nodes of the list try sooner. A node votes once in an epoch, only while it looks
 * itself, and only for a log that is not behind its own.
 */
final class Election {
    private final Node node;
    private final Random random = new Random();
    private long won;
    private String leader;

    Election(Node node) {
        this.node = node;
    }

    long won() {
        return won;
    }

    String leader() {
        return leader;
    }

    /** Returns when there is a leader to follow, or this node has won. */
    void look() throws Exception {
        won = 0;
        // The first time nodes of one start need not race each other.
        long wait = 40 + (node.store.epoch == 0 ? 1000L : 90L) * node.order + random.nextInt(20);
        while (true) {
            leader = node.awaitLeader(wait);
            if (leader != null) {
                return;
            }
            wait = 30 + 50L * node.order + random.nextInt(40);
            long heard = wouldWin();
            if (heard >= 0 && wins(heard)) {
                return;
            }
        }
    }

    /** The highest epoch heard of, or -1 when a majority would not vote for this node. */
    private long wouldWin() throws Exception {
        Poll poll = new Poll(node.majority() - 1);
        for (String member : node.members.keySet()) {
            if (!member.equals(node.name)) {
                poll.start(() -> ask(member, Message.Type.PREVOTE, 0, poll));
            }
        }
        return poll.await() ? poll.highest() : -1;
    }

    private boolean wins(long heard) throws Exception {
        long epoch;
        synchronized (node) {
            epoch = Math.max(heard, node.store.accepted) + 1;
            node.store.accept(epoch);
        }
        Poll poll = new Poll(node.majority() - 1);
        for (String member : node.members.keySet()) {
            if (!member.equals(node.name)) {
                poll.start(() -> ask(member, Message.Type.VOTE, epoch, poll));
            }
        }
        boolean elected = poll.await();
        synchronized (node) {
            if (elected && node.store.accepted == epoch) {
                won = epoch;
                node.turn(Node.Mode.LEADING);
                return true;
            }
            if (poll.highest() > node.store.accepted) {
                node.store.accept(poll.highest());
            }
            return false;
        }
    }

    private Message candidacy(Message.Type type, long epoch) {
        Message m = new Message(type, epoch);
        synchronized (node) {
            m.b = node.creditEpoch();
            m.c = node.creditIndex();
        }
        m.s = node.name;
        return m;
    }

    private void ask(String member, Message.Type type, long epoch, Poll poll) throws IOException {
        Link link = Link.connect(node.members.get(member), node.port, Node.CONNECT, Node.CONNECT);
        try {
            link.send(candidacy(type, epoch));
            poll.answer(link.receive());
        } finally {
            link.close();
        }
    }

    /** The voter's side. */
    static Message vote(Node node, Message asked) throws IOException {
        Message reply = new Message(Message.Type.VOTED);
        synchronized (node) {
            boolean notBehind = asked.b > node.creditEpoch()
                    || asked.b == node.creditEpoch() && asked.c >= node.creditIndex();
            boolean free = node.mode == Node.Mode.LOOKING && notBehind;
            if (asked.type == Message.Type.VOTE && free && asked.a > node.store.accepted) {
                node.store.accept(asked.a);
                reply.a = 1;
            } else if (asked.type == Message.Type.PREVOTE && free) {
                reply.a = 1;
            }
            reply.b = node.store.accepted;
        }
        return reply;
    }

    /** Answers that come in while the asker waits. */
    private static final class Poll {
        private final int wanted;
        private int open;
        private int yes;
        private long highest;

        Poll(int wanted) {
            this.wanted = wanted;
        }

        interface Question {
            void ask() throws IOException;
        }

        void start(Question question) {
            synchronized (this) {
                open++;
            }
            Thread thread = new Thread(() -> {
                try {
                    question.ask();
                } catch (IOException e) {
                    // no answer is an answer
                } finally {
                    synchronized (this) {
                        open--;
                        notifyAll();
                    }
                }
            }, "ask");
            thread.setDaemon(true);
            thread.start();
        }

        synchronized void answer(Message m) {
            yes += (int) m.a;
            highest = Math.max(highest, m.b);
            notifyAll();
        }

        synchronized boolean await() throws InterruptedException {
            while (yes < wanted && open > 0) {
                wait();
            }
            return yes >= wanted;
        }

        synchronized long highest() {
            return highest;
        }
    }
}

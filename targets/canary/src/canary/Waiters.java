package canary;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Client requests of this node that wait until their entry is applied here. Has its own lock. */
final class Waiters {
    static final class Waiter {
        final long request;
        /** Set for a value that is sent to the leader in parts: it is sent again after a rejoin. */
        final Entry big;
        private String answer;
        private boolean again;

        Waiter(long request, Entry big) {
            this.request = request;
            this.big = big;
        }

        /** What was sent before may have been taken: from now on a refusal says nothing about it. */
        synchronized void again() {
            again = true;
        }

        synchronized void answer(String text) {
            if (answer == null) {
                answer = again && text.startsWith("fail ") ? "err sent twice, then " + text : text;
                notifyAll();
            }
        }

        synchronized String await(long limitMs) throws InterruptedException {
            long end = System.nanoTime() + limitMs * 1_000_000L;
            while (answer == null) {
                long left = (end - System.nanoTime()) / 1_000_000L;
                if (left <= 0) {
                    return "err timeout";
                }
                wait(left);
            }
            return answer;
        }
    }

    private final Map<Long, Waiter> open = new HashMap<>();
    private long next = (long) new SecureRandom().nextInt() << 32;

    synchronized Waiter add(Entry big) {
        Waiter waiter = new Waiter(++next, big == null ? null : big);
        open.put(waiter.request, waiter);
        return waiter;
    }

    synchronized void remove(Waiter waiter) {
        open.remove(waiter.request);
    }

    void done(long request, String answer) {
        Waiter waiter;
        synchronized (this) {
            waiter = open.remove(request);
        }
        if (waiter != null) {
            waiter.answer(answer);
        }
    }

    /** The way to the leader is lost: nobody knows what became of these. Values in parts stay, they are sent again. */
    void lost(boolean keepBig) {
        List<Waiter> gone = new ArrayList<>();
        synchronized (this) {
            for (Waiter waiter : open.values()) {
                if (!keepBig || waiter.big == null) {
                    gone.add(waiter);
                }
            }
            for (Waiter waiter : gone) {
                open.remove(waiter.request);
            }
        }
        for (Waiter waiter : gone) {
            waiter.answer("err lost");
        }
    }

    synchronized List<Waiter> big() {
        List<Waiter> all = new ArrayList<>();
        for (Waiter waiter : open.values()) {
            if (waiter.big != null) {
                all.add(waiter);
            }
        }
        return all;
    }
}

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.ratis.client.RaftClient;
import org.apache.ratis.client.RaftClientConfigKeys;
import org.apache.ratis.conf.RaftProperties;
import org.apache.ratis.examples.arithmetic.AssignmentMessage;
import org.apache.ratis.examples.arithmetic.expression.Expression;
import org.apache.ratis.examples.arithmetic.expression.Variable;
import org.apache.ratis.protocol.RaftClientReply;
import org.apache.ratis.protocol.RaftGroup;
import org.apache.ratis.protocol.RaftPeerId;
import org.apache.ratis.retry.RetryPolicies;
import org.apache.ratis.retry.RetryPolicy;
import org.apache.ratis.util.TimeDuration;
import warren.workload.NamedSession;

/**
 * One Ratis client that asks a given server first and goes where the leader is. Every wait is bounded here, not by the library;
 * after a wait that ran out the session is over, as the lost request may still be tried behind our back.
 */
final class RatisSession extends NamedSession {
    private static final int TRIES = 40;
    private static final int TRY_MS = 1000;
    private static final int PAUSE_MS = 25;
    /** Of clients: an election lasts longer than one try. */
    static final RetryPolicy PATIENT = RetryPolicies.retryUpToMaximumCountWithFixedSleep(TRIES,
            TimeDuration.valueOf(PAUSE_MS, TimeUnit.MILLISECONDS));
    /**
     * Of who asks one server what it holds: to the library a variable that is not there is an error like any other, so it would be asked for
     * until the time is over, and a loss would look like a server that does not answer.
     */
    static final RetryPolicy ONCE = RetryPolicies.noRetry();
    /** Closing a client waits for its connections, and calls retry beyond any limit of ours: neither on the workload's threads. */
    private static final ExecutorService ASIDE = Executors.newCachedThreadPool(body -> {
        Thread thread = new Thread(body, "aside");
        thread.setDaemon(true);
        return thread;
    });

    private final RaftGroup group;
    private final RaftClient client;
    private final long limitMs;
    private volatile Future<?> pending;

    RatisSession(String id, RaftGroup group, RaftPeerId first, long limitMs, RetryPolicy policy) {
        super(id);
        this.group = group;
        this.limitMs = limitMs;
        RaftProperties properties = new RaftProperties();
        RaftClientConfigKeys.Rpc.setRequestTimeout(properties, TimeDuration.valueOf(TRY_MS, TimeUnit.MILLISECONDS));
        client = RaftClient.newBuilder().setProperties(properties).setRaftGroup(group).setLeaderId(first)
                .setRetryPolicy(policy).build();
    }

    /** Whether this server answers for the group at all. */
    void knock(RaftPeerId server, long ms) throws Exception {
        ask(() -> client.getGroupInfo(group.getGroupId(), server), ms);
    }

    RaftClientReply assign(String name, Expression value) throws Exception {
        return ask(() -> client.send(new AssignmentMessage(new Variable(name), value)), limitMs);
    }

    /** What the leader knows; it answers from its own state, so one that was just deposed may answer late. */
    long read(String name) throws Exception {
        return number(ask(() -> client.sendReadOnly(Expression.Utils.toMessage(new Variable(name))), limitMs));
    }

    /** What one server has applied, once that is at least up to an index of the log; null = never assigned there. */
    Long applied(String name, long index, RaftPeerId server, long ms) throws Exception {
        try {
            return number(ask(() -> client.sendStaleRead(Expression.Utils.toMessage(new Variable(name)), index, server), ms));
        } catch (IOException e) {
            for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                if (String.valueOf(cause.getMessage()).contains("Undefined variable")) {
                    usable = true;
                    return null;
                }
            }
            throw e;
        }
    }

    private RaftClientReply ask(Callable<RaftClientReply> question, long ms) throws Exception {
        RaftClientReply got = await(ASIDE.submit(question), ms);
        if (!got.isSuccess()) {
            throw new IOException(String.valueOf(got.getException()));
        }
        return got;
    }

    private <T> T await(Future<T> future, long ms) throws Exception {
        pending = future;
        if (!usable) {
            throw new IOException("dropped");
        }
        try {
            return future.get(ms, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            usable = false;
            throw new IOException("no answer within " + ms + " ms");
        } catch (ExecutionException e) {
            usable = false;
            throw new IOException(String.valueOf(e.getCause()), e.getCause());
        } finally {
            pending = null;
            future.cancel(true);
        }
    }

    private static long number(RaftClientReply reply) {
        Map<String, Double> none = java.util.Collections.emptyMap();
        return Expression.Utils.bytes2Expression(reply.getMessage().getContent().toByteArray(), 0).evaluate(none).longValue();
    }

    @Override
    public void drop() {
        usable = false;
        Future<?> waiting = pending;
        if (waiting != null) {
            waiting.cancel(true);
        }
        ASIDE.submit(() -> {
            client.close();
            return null;
        });
    }
}

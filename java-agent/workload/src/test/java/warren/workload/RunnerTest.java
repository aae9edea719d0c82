package warren.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A runner driven through its page, as the executor does it, with a system that lives in this process. */
class RunnerTest {
    /** Far above what anything here takes: a machine may be busy. */
    private static final long PATIENCE_NS = 600_000_000_000L;

    @TempDir
    Path dir;
    private ByteBuffer page;
    private Thread runner;

    /** A session whose operations succeed at once, or hang until it is dropped. */
    private static final class Fake implements Session {
        private static int made;
        private final String id = "s" + ++made;
        private final CountDownLatch dropped = new CountDownLatch(1);

        @Override
        public String id() {
            return id;
        }

        @Override
        public boolean usable() {
            return dropped.getCount() > 0;
        }

        @Override
        public boolean close() {
            return true;
        }

        @Override
        public void drop() {
            dropped.countDown();
        }
    }

    private static class FakeDriver extends Driver {
        volatile boolean hang;
        /** The steps go on until they are given up. */
        volatile boolean endless;
        volatile long stepsEnded;
        /** The system's own client library never comes back from a question. */
        volatile boolean deaf;

        @Override
        public int port() {
            return 1;
        }

        @Override
        public Session open(Client client, Node at, long timeoutMs) {
            return new Fake();
        }

        @Override
        public void steps(Runner run) throws Exception {
            Client one = run.extra("steps");
            one.session(100);
            one.run(Operation.of("create", "bug").value("a\"b"), () -> Result.ok().version(0).zxid(1));
            one.run(Operation.of("read", "bug"), () -> {
                throw new IllegalStateException("lost");
            });
            one.close();
            while (endless && !run.stepsOver()) {
                Thread.sleep(1);
            }
            stepsEnded = System.nanoTime();
        }

        @Override
        public void traffic(Client client) throws Exception {
            client.session(100);
            client.run(Operation.of("write", "k").value("v"), () -> {
                if (hang) {
                    assertTrue(((Fake) client.session()).dropped.await(60, TimeUnit.SECONDS));
                    return Result.unknown("dropped");
                }
                return client.random.nextInt(3) == 0 ? Result.failed("No") : Result.ok().version(1);
            });
        }

        @Override
        public void probe(Client client) {
            client.run(Operation.of("read", "k"), () -> Result.ok().value("v"));
        }

        @Override
        public void serve(Client client) {
            while (deaf) {
                LockSupport.parkNanos(1_000_000L);
            }
            client.run(Operation.of("write", "s").value("v"), Result::ok);
        }

        @Override
        public boolean observe(Runner run, Observations out, boolean durable) {
            out.replica(run.nodes.get(0), "7", "k", null, "3");
            return true;
        }
    }

    private void start(Driver driver) throws Exception {
        Path file = dir.resolve("workload.page");
        Files.write(file, new byte[WorkloadPage.SIZE]);
        try (RandomAccessFile raw = new RandomAccessFile(file.toFile(), "rw")) {
            page = raw.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, WorkloadPage.SIZE).order(ByteOrder.LITTLE_ENDIAN);
        }
        page.putLong(0, WorkloadPage.MAGIC).putLong(8, WorkloadPage.LAYOUT);
        page.putLong(16 * 8, 1 << 8 | 1).putLong(17 * 8, 1 << 8);
        String[] args = {file.toString(), dir.toString(), "2", "n1=127.0.0.11", "n2=127.0.0.12"};
        runner = Runner.start("runner", () -> Runner.obey(args, driver));
    }

    private void command(int word) throws Exception {
        page.putLong(2 * 8, word);
        await(word);
    }

    /** What is said before GO of a run without faults. */
    private void faultFree() {
        page.putLong(4 * 8, System.nanoTime()).putLong(12 * 8, WorkloadPage.NONE_ASKED);
    }

    private void await(int word) throws Exception {
        long limit = System.nanoTime() + PATIENCE_NS;
        while (page.getLong(3 * 8) != word) {
            assertTrue(System.nanoTime() < limit, "command " + word + " is not done");
            Thread.sleep(1);
        }
        assertEquals(0, page.getLong(10 * 8), "command " + word + " failed");
    }

    /** What another thread of the runner writes in its own time. */
    private void awaitLine(String file, String part, String what) throws Exception {
        long limit = System.nanoTime() + PATIENCE_NS;
        while (lines(file, part).isEmpty()) {
            assertTrue(System.nanoTime() < limit, what);
            Thread.sleep(5);
        }
    }

    private List<String> lines(String file, String part) throws Exception {
        List<String> found = new ArrayList<>();
        for (String line : Files.readAllLines(dir.resolve(file))) {
            if (line.contains(part)) {
                found.add(line);
            }
        }
        return found;
    }

    @Test
    void aWholeRun() throws Exception {
        start(new FakeDriver());
        command(WorkloadPage.CONNECT);
        faultFree();
        command(WorkloadPage.GO);
        for (String client : new String[] {"client-1", "client-2"}) {
            assertTrue(lines("history.jsonl", "\"ev\":\"invoke\"").stream().filter(l -> l.contains(client)).count() >= 40);
        }
        page.putLong(16 * 8, 2 << 8 | 1);
        awaitLine("history.jsonl", "probe-n1-2", "a rebooted node is probed");
        command(WorkloadPage.STOP);
        command(WorkloadPage.DEGRADED);
        command(WorkloadPage.HEALED);
        command(WorkloadPage.CHECK);
        command(WorkloadPage.EXIT);
        runner.join(PATIENCE_NS / 1_000_000);
        assertFalse(runner.isAlive());

        assertEquals(1, lines("history.jsonl", "\"value\":\"a\\\"b\"").size(), "a quote in a value is escaped");
        assertEquals(1, lines("history.jsonl", "\"outcome\":\"unknown\"").size(), "an exception makes an unknown outcome");
        assertEquals(2, lines("observations.jsonl", "\"obs\":\"serve\"").size());
        assertEquals(0, lines("observations.jsonl", "\"node\":\"n2\"").size(), "a dead node is asked nothing");
        assertEquals(2, lines("observations.jsonl", "\"obs\":\"progress\"").size());
        assertEquals(1, lines("observations.jsonl", "\"key\":\"k\",\"value\":null,\"key_version\":\"3\"").size());
        assertEquals(1, lines("observations.jsonl", "\"obs\":\"round\",\"name\":\"final\",\"complete\":true").size());
        // A probe may be in its last operation.
        long limit = System.nanoTime() + PATIENCE_NS;
        while (lines("history.jsonl", "\"ev\":\"done\"").size() != page.getLong(7 * 8)) {
            assertTrue(System.nanoTime() < limit, "every outcome is counted");
            Thread.sleep(5);
        }
    }

    /** A session of its own, closed whatever its operations came to; whether the history has its end. */
    private static void inOneSession(Runner run, String name, Client.Call... calls) throws Exception {
        Client client = run.extra(name);
        client.session(100);
        try {
            for (Client.Call call : calls) {
                client.run(Operation.of("write", name).value("v"), call);
            }
        } catch (LinkageError e) {
            // As a library that lacks a class.
        } finally {
            client.close();
        }
    }

    @Test
    void theHistoryHasNoEndOfASessionWithAnOperationThatMayStillHappen() throws Exception {
        start(new FakeDriver() {
            @Override
            public void steps(Runner run) throws Exception {
                Client.Call unknown = () -> Result.unknown("lost");
                Client.Call error = () -> {
                    throw new LinkageError("no such class");
                };
                inOneSession(run, "sure-ok", Result::ok, Result::ok);
                inOneSession(run, "open-unknown", unknown);
                inOneSession(run, "open-still", unknown, Result::ok);
                inOneSession(run, "open-error", Result::ok, error);
                inOneSession(run, "open-failed", () -> Result.failed("Timeout"));
                Client around = run.extra("open-around");
                around.session(100);
                around.run(Operation.of("delete", "row"), () -> {
                    around.run(Operation.of("write", "table").value("v"), unknown);
                    return Result.ok();
                });
                around.close();
                Client anew = run.extra("sure-anew");
                anew.session(100);
                anew.run(Operation.of("write", "k").value("v"), unknown);
                anew.drop();
                inOneSession(run, "sure-other", Result::ok);
                anew.session(100);
                anew.run(Operation.of("write", "k").value("w"), Result::ok);
                anew.close();
            }
        });
        command(WorkloadPage.CONNECT);
        faultFree();
        command(WorkloadPage.GO);
        for (String client : new String[] {"sure-ok", "sure-anew", "sure-other"}) {
            assertEquals(1, ends(client), client);
        }
        for (String client : new String[] {"open-unknown", "open-still", "open-error", "open-failed", "open-around"}) {
            assertEquals(0, ends(client), client);
        }
        assertEquals(1, lines("history.jsonl", "\"client\":\"open-around\"").stream().filter(l -> l.contains("\"op\":\"write\"")).count());
        command(WorkloadPage.EXIT);
    }

    private long ends(String client) throws Exception {
        return lines("history.jsonl", "\"ev\":\"close\"").stream().filter(l -> l.contains("\"client\":\"" + client + "\"")).count();
    }

    @Test
    void anOperationThatHangsIsCutAtTheEnd() throws Exception {
        FakeDriver driver = new FakeDriver();
        driver.hang = true;
        start(driver);
        command(WorkloadPage.CONNECT);
        faultFree();
        long began = System.nanoTime();
        command(WorkloadPage.GO);
        long ms = (System.nanoTime() - began) / 1_000_000L;
        assertTrue(ms >= 2900, "not before the tail's 3 s, but took " + ms + " ms");
        assertEquals(2, lines("history.jsonl", "\"error\":\"dropped\"").size(), "each client's operation was cut, and came back");
        command(WorkloadPage.EXIT);
    }

    @Test
    void aClientThatNeverComesBackMakesNoProgress() throws Exception {
        System.setProperty("warren.serve_ms", "100");
        System.setProperty("warren.operation_ms", "500");
        try {
            FakeDriver driver = new FakeDriver();
            start(driver);
            command(WorkloadPage.CONNECT);
            faultFree();
            command(WorkloadPage.GO);
            driver.deaf = true;
            command(WorkloadPage.HEALED);
            List<String> stuck = lines("observations.jsonl", "its thread did not come back");
            assertEquals(3, stuck.size(), "a node and two clients");
            assertTrue(stuck.get(0).contains("\"obs\":\"serve\",\"phase\":\"healed\",\"node\":\"n1\",\"ok\":false"), stuck.get(0));
            assertTrue(stuck.get(1).contains("\"client\":\"client-1\",\"ok\":false"), stuck.get(1));
            driver.deaf = false;
            command(WorkloadPage.EXIT);
        } finally {
            System.clearProperty("warren.serve_ms");
            System.clearProperty("warren.operation_ms");
        }
    }

    @Test
    void stepsAreGivenUpSoLongAfterTheLastFaultAsTheTargetSays() throws Exception {
        System.setProperty("warren.steps_ms", "4500");
        try {
            FakeDriver driver = new FakeDriver();
            driver.endless = true;
            start(driver);
            command(WorkloadPage.CONNECT);
            page.putLong(2 * 8, WorkloadPage.GO);
            Thread.sleep(200);
            assertEquals(0, driver.stepsEnded, "as long as a fault is awaited they go on");
            long last = System.nanoTime();
            page.putLong(4 * 8, last);
            await(WorkloadPage.GO);
            long ms = (driver.stepsEnded - last) / 1_000_000L;
            assertTrue(ms >= 4500, "given up after " + ms + " ms");
            command(WorkloadPage.EXIT);
        } finally {
            System.clearProperty("warren.steps_ms");
        }
    }

    @Test
    void stepsAreGivenUpAlsoWhereTheLastFaultWasOverBeforeGo() throws Exception {
        System.setProperty("warren.steps_ms", "1500");
        try {
            FakeDriver driver = new FakeDriver();
            driver.endless = true;
            start(driver);
            command(WorkloadPage.CONNECT);
            page.putLong(4 * 8, System.nanoTime() - 1_000_000_000L).putLong(12 * 8, WorkloadPage.OVER);
            long go = System.nanoTime();
            command(WorkloadPage.GO);
            long ms = (driver.stepsEnded - go) / 1_000_000L;
            assertTrue(ms >= 1500, "counted from GO, but given up after " + ms + " ms");
            command(WorkloadPage.EXIT);
        } finally {
            System.clearProperty("warren.steps_ms");
        }
    }

    @Test
    void stepsOfARunWithoutFaultsAreNotGivenUp() throws Exception {
        System.setProperty("warren.steps_ms", "100");
        try {
            FakeDriver driver = new FakeDriver();
            driver.endless = true;
            start(driver);
            command(WorkloadPage.CONNECT);
            faultFree();
            page.putLong(2 * 8, WorkloadPage.GO);
            Thread.sleep(600);
            assertEquals(0, driver.stepsEnded);
            command(WorkloadPage.STOP);
            assertTrue(driver.stepsEnded > 0);
            command(WorkloadPage.EXIT);
        } finally {
            System.clearProperty("warren.steps_ms");
        }
    }

    @Test
    void stepsThatBreakAreSaidUnlessTheyWereGivenUp() throws Exception {
        // What they throw, whether after they were given up, and what a reader of the run finds.
        Object[][] table = {
            {new IOException("no session\n  no server"), false, "\"obs\":\"note\",\"text\":\"the fixed steps ended early: java.io.IOException: no session\""},
            {new NoClassDefFoundError("a.B"), false,
                "\"obs\":\"incomplete\",\"what\":\"progress\",\"why\":\"the fixed steps ended: java.lang.NoClassDefFoundError: a.B\""},
            {new InterruptedException(), false, null},
            {new IOException("cut off"), true, null},
            {new NoClassDefFoundError("a.B"), true, null},
        };
        System.setProperty("warren.steps_ms", "200");
        try {
            for (Object[] row : table) {
                dir = Files.createDirectory(dir.resolve("next"));
                Throwable thrown = (Throwable) row[0];
                boolean givenUp = (Boolean) row[1];
                start(new FakeDriver() {
                    @Override
                    public void steps(Runner run) throws Exception {
                        while (givenUp && !run.stepsOver()) {
                            Thread.sleep(1);
                        }
                        if (thrown instanceof Error) {
                            throw (Error) thrown;
                        }
                        throw (Exception) thrown;
                    }
                });
                command(WorkloadPage.CONNECT);
                // Those that are not to be given up have all the time that a busy machine may take.
                page.putLong(4 * 8, System.nanoTime()).putLong(12 * 8, givenUp ? 0 : WorkloadPage.NONE_ASKED);
                command(WorkloadPage.GO);
                List<String> said = lines("observations.jsonl", "\"obs\"");
                assertEquals(row[2] == null ? 0 : 1, said.size(), thrown + ": " + said);
                if (row[2] != null) {
                    assertTrue(said.get(0).contains((String) row[2]), said.get(0));
                }
                command(WorkloadPage.EXIT);
            }
        } finally {
            System.clearProperty("warren.steps_ms");
        }
    }

    @Test
    void aThreadOfTheWorkloadThatBreaksIsSaid() throws Exception {
        start(new FakeDriver() {
            @Override
            public void traffic(Client client) throws Exception {
                if (client.index == 1) {
                    throw new NoClassDefFoundError("a.B");
                }
                super.traffic(client);
            }

            @Override
            public void probe(Client client) {
                throw new NoClassDefFoundError("a.C");
            }
        });
        command(WorkloadPage.CONNECT);
        faultFree();
        command(WorkloadPage.GO);
        List<String> said = lines("observations.jsonl", "\"obs\"");
        assertEquals(1, said.size(), "of a client whose traffic goes on to its end nothing: " + said);
        String broke = "\"obs\":\"incomplete\",\"what\":\"progress\",\"why\":\"the traffic of client-2 ended: java.lang.NoClassDefFoundError: a.B\"";
        assertTrue(said.get(0).contains(broke), said.get(0));
        page.putLong(16 * 8, 2 << 8 | 1);
        awaitLine("observations.jsonl", "the probe of n1 ended: java.lang.NoClassDefFoundError: a.C", "a probe that breaks is said");
        command(WorkloadPage.EXIT);
    }
}

package sample;

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.channels.SocketChannel;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;

/**
 * A target driven by lines on its input: each command runs on a thread of its own name, so that one can be held. An exception is answered
 * by its class; one that does not say that Warren threw it is of nobody.
 */
public class Puppet {
    static final Map<String, Thread> THREADS = new HashMap<>();
    static FileOutputStream file;
    static Socket socket;
    static Socket accepted;
    static ServerSocket server;
    static int delivered;
    static final Handler<String> ANSWERS = new Answers();

    /** What the dictionary hooks. */
    static final class Wire {
        final Socket to;

        Wire(Socket to) {
            this.to = to;
        }

        void send(Message m) throws IOException {
            delivered++;
        }

        boolean offer(Message m) {
            delivered++;
            return true;
        }

        void flush(String text) throws IOException {
            to.getOutputStream().write(text.getBytes());
        }

        /** Whose call this thread is at, as servers keep it. */
        static Optional<InetAddress> caller() {
            return Optional.ofNullable(accepted).map(Socket::getInetAddress);
        }

        Optional<String> reply() {
            return Optional.of("yes");
        }

        String receive(byte[] into) {
            into = null; // the argument's variable is used again: nothing may be passed for it at the exit
            long reused = 5;
            return "answer" + reused + (into == null ? "" : into.length);
        }
    }

    interface Handler<T> {
        void onNext(T message);
    }

    /** A handler with all that is none: the compiler's bridge for onNext(Object) and body of a lambda, and a helper. */
    static final class Answers implements Handler<String> {
        String last;

        @Override
        public void onNext(String message) {
            Supplier<String> said = () -> convert(message);
            last = said.get();
        }

        private static String convert(String message) {
            return message + "!";
        }
    }

    /** A thread with an own mind, like ZooKeeper's QuorumPeer: its id is a server's number. */
    static final class Peer extends Thread {
        static volatile int interrupts;

        Peer(Runnable work, String name) {
            super(work, name);
        }

        @Override
        public long getId() {
            return 1;
        }

        @Override
        public void interrupt() {
            interrupts++;
            super.interrupt();
        }
    }

    static final class Message {
        @Override
        public String toString() {
            try {
                file.write(7); // I/O inside a hook: must make no point and no endless recursion
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
            return "message";
        }
    }

    static void write() throws IOException {
        file.write(1);
    }

    static void rare() throws IOException {
        recover();
    }

    static void recover() throws IOException {
        file.write(2);
    }

    /** Writes, then waits to be woken; it may have been meanwhile. */
    static String park() throws IOException {
        file.write(3);
        long began = System.nanoTime();
        LockSupport.parkNanos(10_000_000_000L);
        return System.nanoTime() - began < 5_000_000_000L ? "woken" : "waited";
    }

    /** What a connect that fails leaves open: nothing, in the JRE. */
    static String refused() throws IOException {
        InetSocketAddress to = new InetSocketAddress(server.getInetAddress(), server.getLocalPort());
        Socket plain = new Socket();
        SocketChannel channel = SocketChannel.open();
        int failed = 0;
        try {
            plain.connect(to, 1000);
        } catch (IOException e) {
            failed++;
        }
        try {
            channel.connect(to);
        } catch (IOException e) {
            failed++;
        }
        return failed + " of 2 failed, open: " + !plain.isClosed() + " " + channel.isOpen();
    }

    static void asLeader() throws IOException {
        write();
    }

    static void asFollower() throws IOException {
        write();
    }

    static String run(String command) throws Exception {
        switch (command) {
            case "write": write(); return "written";
            case "rare": rare(); return "written";
            case "lead": asLeader(); return "led";
            case "follow": asFollower(); return "followed";
            case "park": return park();
            case "ping": return "pong";
            case "interrupts": return "interrupts " + Peer.interrupts;
            case "connect":
                socket = new Socket(server.getInetAddress(), server.getLocalPort());
                accepted = server.accept();
                return "connected";
            case "refused": return refused();
            case "send": socket.getOutputStream().write(1); return "sent";
            case "msg": new Wire(socket).send(new Message()); return "delivered " + delivered;
            case "offer": return new Wire(socket).offer(new Message()) + " " + delivered;
            case "flush": new Wire(socket).flush("abc"); return "flushed";
            case "reply": return new Wire(socket).reply().get();
            case "answer": ANSWERS.onNext("yes"); return "answered";
            case "receive": return new Wire(socket).receive(new byte[1]);
            default: return "unknown command";
        }
    }

    public static void main(String[] args) throws Exception {
        file = new FileOutputStream("data.bin");
        server = new ServerSocket(0, 5, InetAddress.getByName("127.0.0.12"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String command = line;
            if (command.startsWith("unpark ")) {
                LockSupport.unpark(THREADS.get(command.substring(7)));
                System.out.println("unparked");
                continue;
            }
            if (command.startsWith("interrupt ")) {
                THREADS.get(command.substring(10)).interrupt();
                System.out.println("interrupted");
                continue;
            }
            Thread t = new Peer(() -> {
                String answer;
                try {
                    answer = run(command);
                } catch (Exception e) {
                    boolean said = String.valueOf(e.getMessage()).contains("warren: ");
                    answer = e.getClass().getSimpleName() + (said ? "" : " of nobody");
                }
                System.out.println(answer + (Thread.currentThread().isInterrupted() ? " with interrupt" : ""));
            }, command);
            t.setDaemon(true);
            THREADS.put(command, t);
            t.start();
        }
    }
}

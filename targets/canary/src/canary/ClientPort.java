package canary;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * What clients say, one line each, one answer each. Answers: `ok ...` it happened, `fail <word>` it did not happen, `err <word>`
 * nobody knows. `srvr` tells how the node is and closes.
 */
final class ClientPort {
    /** How long a request may wait; a value in parts waits longer because it survives the loss of a leader. */
    private static final long WAIT = 20L * Node.TICK;
    private static final long WAIT_BIG = 40L * Node.TICK;

    /** How long a reader is kept waiting while the node looks for its place. */
    private static final long WAIT_SERVING = 5L * Node.TICK;

    private final Node node;

    ClientPort(Node node) {
        this.node = node;
    }

    void listen(String address, int port) throws IOException {
        ServerSocket server = new ServerSocket(port, 200, InetAddress.getByName(address));
        Thread thread = new Thread(() -> accept(server), "clients");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept(ServerSocket server) {
        while (true) {
            try {
                Socket socket = server.accept();
                Thread thread = new Thread(() -> serve(socket), "client");
                thread.setDaemon(true);
                thread.start();
            } catch (IOException e) {
                System.out.println("FATAL client port: " + e);
                System.exit(1);
            }
        }
    }

    private void serve(Socket socket) {
        try (Socket s = socket) {
            s.setTcpNoDelay(true);
            BufferedReader in = new BufferedReader(new InputStreamReader(s.getInputStream(), StandardCharsets.UTF_8), 512);
            OutputStream out = s.getOutputStream();
            StringBuilder line = new StringBuilder();
            for (int c = in.read(); c >= 0; c = in.read()) {
                if (c != '\n') {
                    line.append((char) c);
                    if (line.length() == 4 && line.toString().equals("srvr")) {
                        status(out);
                        return;
                    }
                    continue;
                }
                String[] words = line.toString().trim().split(" ");
                line.setLength(0);
                reply(out, perform(words));
            }
        } catch (IOException e) {
            // the client has gone
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private String perform(String[] w) throws IOException, InterruptedException {
        switch (w[0]) {
            case "get":
                return get(w[1]);
            case "dump":
                return dump();
            case "put":
                return submit(Entry.PUT, 0, w[1], w[2], false);
            case "create":
                return submit(Entry.CREATE, 0, w[1], w[2], false);
            case "cas":
                return submit(Entry.CAS, Long.parseLong(w[2]), w[1], w[3], false);
            case "del":
                return submit(Entry.DELETE, 0, w[1], "", false);
            case "sync":
                return submit(Entry.NOOP, 0, "", "", false);
            case "big":
                return submit(Entry.CREATE, 0, w[1], w[2], true);
            default:
                return "fail Unknown";
        }
    }

    private static void reply(OutputStream out, String text) throws IOException {
        out.write((text + "\n").getBytes(StandardCharsets.UTF_8));
    }

    private void status(OutputStream out) throws IOException {
        String text;
        synchronized (node) {
            String mode = !node.serving ? "looking" : node.mode == Node.Mode.LEADING ? "leader" : "follower";
            text = "Mode: " + mode + "\nEpoch: " + node.store.epoch + "\nLength: " + node.log.length() + "\nApplied: "
                    + node.state.applied + "\nDigest: " + Long.toHexString(node.state.digest) + "\nKeys: "
                    + node.state.keys.size();
        }
        reply(out, text);
    }

    private String get(String key) throws InterruptedException {
        synchronized (node) {
            long end = System.nanoTime() + WAIT_SERVING * 1_000_000L;
            for (long left = WAIT_SERVING; !node.serving && left > 0; left = (end - System.nanoTime()) / 1_000_000L) {
                node.wait(left);
            }
            State.Value value = node.state.keys.get(key);
            return !node.serving ? "fail NotServing"
                    : value == null ? "none " + node.state.applied
                            : "ok " + node.state.applied + " " + value.version + " " + value.changed + " " + value.text;
        }
    }

    private String dump() {
        StringBuilder text = new StringBuilder();
        synchronized (node) {
            for (Map.Entry<String, State.Value> e : node.state.keys.entrySet()) {
                text.append(e.getKey()).append(' ').append(e.getValue().version).append(' ').append(e.getValue().changed)
                        .append(' ').append(e.getValue().text).append('\n');
            }
            text.append("end ").append(node.state.applied).append(' ').append(Long.toHexString(node.state.digest));
        }
        return text.toString();
    }

    private String submit(int kind, long expect, String key, String value, boolean big) throws InterruptedException {
        Leader leader;
        Follower follower;
        Waiters.Waiter waiter;
        Entry wish;
        synchronized (node) {
            if (!node.serving) {
                return "fail NotServing";
            }
            leader = node.leader;
            follower = node.follower;
            wish = new Entry(0, 0, 0, kind, expect, key, value);
            waiter = node.waiters.add(big && follower != null ? wish : null);
            wish = new Entry(0, 0, waiter.request, kind, expect, key, value);
        }
        try {
            if (leader != null) {
                leader.forward(wish);
            } else if (big) {
                follower.sendBig(waiter);
            } else {
                follower.forward(wish);
            }
        } catch (IOException e) {
            // What is kept to be sent again still waits; of everything else nobody knows whether it arrived.
            if (waiter.big == null) {
                waiter.answer("err lost");
            }
        }
        try {
            return waiter.await(big ? WAIT_BIG : WAIT);
        } finally {
            node.waiters.remove(waiter);
        }
    }
}

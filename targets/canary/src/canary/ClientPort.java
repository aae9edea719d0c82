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
    private static final long WAIT_BIG = 30L * Node.TICK;

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
                perform(words, out);
            }
        } catch (IOException e) {
            // the client has gone
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void perform(String[] w, OutputStream out) throws IOException, InterruptedException {
        switch (w[0]) {
            case "get":
                get(w[1], out);
                break;
            case "dump":
                dump(out);
                break;
            case "put":
                put(w, out);
                break;
            case "create":
                create(w, out);
                break;
            case "cas":
                cas(w, out);
                break;
            case "del":
                delete(w, out);
                break;
            case "sync":
                sync(out);
                break;
            case "big":
                big(w, out);
                break;
            default:
                reply(out, "fail Unknown");
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

    private void get(String key, OutputStream out) throws IOException {
        String text;
        synchronized (node) {
            State.Value value = node.state.keys.get(key);
            text = !node.serving ? "fail NotServing"
                    : value == null ? "none " + node.state.applied
                            : "ok " + node.state.applied + " " + value.version + " " + value.changed + " " + value.text;
        }
        reply(out, text);
    }

    private void dump(OutputStream out) throws IOException {
        StringBuilder text = new StringBuilder();
        synchronized (node) {
            for (Map.Entry<String, State.Value> e : node.state.keys.entrySet()) {
                text.append(e.getKey()).append(' ').append(e.getValue().version).append(' ').append(e.getValue().changed)
                        .append(' ').append(e.getValue().text).append('\n');
            }
            text.append("end ").append(node.state.applied).append(' ').append(Long.toHexString(node.state.digest));
        }
        reply(out, text.toString());
    }

    private void put(String[] w, OutputStream out) throws IOException, InterruptedException {
        reply(out, submit(Entry.PUT, 0, w[1], w[2], false));
    }

    private void create(String[] w, OutputStream out) throws IOException, InterruptedException {
        reply(out, submit(Entry.CREATE, 0, w[1], w[2], false));
    }

    private void cas(String[] w, OutputStream out) throws IOException, InterruptedException {
        reply(out, submit(Entry.CAS, Long.parseLong(w[2]), w[1], w[3], false));
    }

    private void delete(String[] w, OutputStream out) throws IOException, InterruptedException {
        reply(out, submit(Entry.DELETE, 0, w[1], "", false));
    }

    private void sync(OutputStream out) throws IOException, InterruptedException {
        reply(out, submit(Entry.NOOP, 0, "", "", false));
    }

    private void big(String[] w, OutputStream out) throws IOException, InterruptedException {
        reply(out, submit(Entry.CREATE, 0, w[1], w[2], true));
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
                leader.append(wish);
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

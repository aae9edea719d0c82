package canary;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One node of the canary: a toy replicated log with leader election. Arguments: name, folder, peer port, client port. The file
 * `members` in the folder has a line name=address for every node. Listens on its own address only.
 */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> members = new LinkedHashMap<>();
        for (String line : Files.readAllLines(new File(args[1], "members").toPath(), StandardCharsets.UTF_8)) {
            int sign = line.indexOf('=');
            if (sign > 0) {
                members.put(line.substring(0, sign).trim(), line.substring(sign + 1).trim());
            }
        }
        int port = Integer.parseInt(args[2]);
        Node node = new Node(args[0], new File(args[1]), port, members);
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> {
            System.out.println("FATAL " + thread.getName() + ": " + e);
            e.printStackTrace(System.out);
            System.exit(1);
        });
        ServerSocket server = new ServerSocket(port, 50, InetAddress.getByName(members.get(args[0])));
        Thread acceptor = new Thread(() -> accept(node, server), "peers");
        acceptor.setDaemon(true);
        acceptor.start();
        new ClientPort(node).listen(members.get(args[0]), Integer.parseInt(args[3]));
        node.run();
    }

    private static void accept(Node node, ServerSocket server) {
        while (true) {
            try {
                Socket socket = server.accept();
                Thread thread = new Thread(() -> answer(node, socket), "peer");
                thread.setDaemon(true);
                thread.start();
            } catch (IOException e) {
                System.out.println("FATAL peer port: " + e);
                System.exit(1);
            }
        }
    }

    /** The first message of a connection says what it is for. */
    private static void answer(Node node, Socket socket) {
        Link link = null;
        try {
            link = new Link(socket, Node.SILENCE);
            Message first = link.receive();
            switch (first.type) {
                case PREVOTE:
                case VOTE:
                    link.send(Election.vote(node, first));
                    break;
                case LEAD:
                    node.announced(first.s);
                    break;
                case JOIN:
                    Leader leader;
                    synchronized (node) {
                        leader = node.leader;
                    }
                    if (leader == null) {
                        link.send(new Message(Message.Type.REFUSED));
                    } else {
                        leader.welcome(link, first);
                    }
                    break;
                default:
                    throw new IOException("a connection begins with " + first.type);
            }
        } catch (IOException e) {
            // the other end tries again
        } finally {
            if (link != null) {
                link.close();
            }
        }
    }
}

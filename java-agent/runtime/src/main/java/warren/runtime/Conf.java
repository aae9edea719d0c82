package warren.runtime;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;

/**
 * agent.conf as values (docs/formats.md section 5). Read once in premain, and by the offline instrumenter. Refuses unknown words: a
 * misspelt line would silently change what is tested.
 */
public final class Conf {
    public String[] nodeNames = {};
    public int[] nodeIps = {};
    public String[] includes = {};
    public String[] excludes = {};
    public String[] roleNames = {};
    /** Frame globs and, at the same index, the 1-based role they show. */
    public String[] roleFrames = {};
    public int[] roleOf = {};
    public Hook[] hooks = {};
    public String[] skips = {};
    /** Stack ids learned in idle time. */
    public long[] backgroundIds = {};
    /** Frame globs from the dictionary: such stacks are background without being learned. */
    public String[] backgroundFrames = {};
    public String[] logs = {};
    public String dump;
    public String[] instrumented = {};

    public static Conf read(File file) throws IOException {
        ArrayList<String> lines = new ArrayList<>();
        try (BufferedReader in =
                new BufferedReader(new InputStreamReader(new FileInputStream(file), StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                lines.add(line);
            }
        }
        return parse(lines.toArray(new String[0]), file.getPath());
    }

    public static Conf parse(String[] lines, String place) throws IOException {
        Conf c = new Conf();
        boolean version = false;
        for (int i = 0; i < lines.length; i++) {
            String line = lines[i].trim();
            if (line.isEmpty() || line.charAt(0) == '#') {
                continue;
            }
            int space = line.indexOf(' ');
            String word = space < 0 ? line : line.substring(0, space);
            String rest = space < 0 ? "" : line.substring(space + 1).trim();
            try {
                if (rest.isEmpty()) {
                    throw new IOException("a value is missing");
                }
                if (word.equals("version")) {
                    if (!rest.equals("1")) {
                        throw new IOException("this agent reads version 1");
                    }
                    version = true;
                } else {
                    c.line(word, rest);
                }
            } catch (IOException | RuntimeException e) {
                throw new IOException(place + " line " + (i + 1) + ": `" + line + "`: " + e.getMessage(), e);
            }
        }
        if (!version) {
            throw new IOException(place + ": no line `version 1`: not an agent.conf of this Warren");
        }
        return c;
    }

    private void line(String word, String rest) throws IOException {
        switch (word) {
            case "node":
                int space = rest.indexOf(' ');
                if (space < 0) {
                    throw new IOException("expected: node <name> <ipv4>");
                }
                nodeNames = add(nodeNames, rest.substring(0, space));
                int ip = Peers.parseIp(rest.substring(space + 1).trim());
                if (ip == 0) {
                    throw new IOException("not an IPv4 address");
                }
                nodeIps = add(nodeIps, ip);
                break;
            case "include":
                includes = add(includes, rest);
                break;
            case "exclude":
                excludes = add(excludes, rest);
                break;
            case "role":
                int cut = rest.indexOf(' ');
                if (cut < 0) {
                    throw new IOException("expected: role <name> <frame glob>");
                }
                role(rest.substring(0, cut), rest.substring(cut + 1).trim());
                break;
            case "hook":
                Hook[] more = java.util.Arrays.copyOf(hooks, hooks.length + 1);
                more[hooks.length] = Hook.parse(rest);
                hooks = more;
                break;
            case "skip":
                skips = add(skips, rest);
                break;
            case "background":
                if (isId(rest)) {
                    backgroundIds = java.util.Arrays.copyOf(backgroundIds, backgroundIds.length + 1);
                    backgroundIds[backgroundIds.length - 1] = Long.parseUnsignedLong(rest, 16);
                } else {
                    backgroundFrames = add(backgroundFrames, rest);
                }
                break;
            case "log":
                logs = add(logs, rest);
                break;
            case "dump":
                dump = rest;
                break;
            case "instrumented":
                instrumented = add(instrumented, rest);
                break;
            default:
                throw new IOException("unknown word `" + word + "`");
        }
    }

    private void role(String name, String frame) {
        int index = 0;
        while (index < roleNames.length && !roleNames[index].equals(name)) {
            index++;
        }
        if (index == roleNames.length) {
            roleNames = add(roleNames, name);
        }
        roleFrames = add(roleFrames, frame);
        roleOf = add(roleOf, index + 1);
    }

    private static boolean isId(String text) {
        if (text.length() != 16) {
            return false;
        }
        for (int i = 0; i < 16; i++) {
            if (Character.digit(text.charAt(i), 16) < 0) {
                return false;
            }
        }
        return true;
    }

    /** True if the class (dotted name) is to be instrumented for coverage. */
    public boolean included(String className) {
        return Glob.any(includes, className) && !Glob.any(excludes, className);
    }

    private static String[] add(String[] list, String value) {
        String[] more = java.util.Arrays.copyOf(list, list.length + 1);
        more[list.length] = value;
        return more;
    }

    private static int[] add(int[] list, int value) {
        int[] more = java.util.Arrays.copyOf(list, list.length + 1);
        more[list.length] = value;
        return more;
    }
}

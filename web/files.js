// Files to download, and the link that holds an array and its job.
"use strict";

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** One file of a tar archive (POSIX ustar): a head of 512 bytes, and the text in blocks of 512. */
function tar_entry(name, text) {
  const encoder = new TextEncoder();
  const body = encoder.encode(text);
  const head = new Uint8Array(512);
  const put = (at, field) => head.set(encoder.encode(field), at);
  const octal = (number, digits) => number.toString(8).padStart(digits, "0");
  const slash = name.length > 100 ? name.lastIndexOf("/", 154) : -1;
  put(0, name.slice(slash + 1, slash + 101));
  put(100, "0000644\0" + "0000000\0" + "0000000\0");
  put(124, octal(body.length, 11) + "\0" + octal(0, 11) + "\0" + "        0");
  put(257, "ustar\0" + "00");
  if (slash > 0) put(345, name.slice(0, slash));
  const sum = head.reduce((total, byte) => total + byte, 0);
  put(148, octal(sum, 6) + "\0 ");
  return [head, body, new Uint8Array((512 - (body.length % 512)) % 512)];
}

/** A folder of results, as `mirrorball report` reads it when it is unpacked. */
function tar_of(folder, files) {
  const names = [...files.keys()].sort();
  const parts = names.flatMap((name) => tar_entry(`${folder}/${name}`, files.get(name)));
  return new Blob([...parts, new Uint8Array(1024)], { type: "application/x-tar" });
}

/** Packs a value into letters that a link may have. */
async function packed(value) {
  const stream = new Blob([JSON.stringify(value)]).stream();
  const packing = new Response(stream.pipeThrough(new CompressionStream("deflate-raw")));
  const bytes = new Uint8Array(await packing.arrayBuffer());
  const letters = btoa(String.fromCharCode(...bytes));
  return letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Most bytes of a value that a link may hold. */
const UNPACKED_MAX = 1e6;

async function unpacked(letters) {
  const text = atob(letters.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = stream.getReader();
  const parts = [];
  let size = 0;
  for (let it = await reader.read(); !it.done; it = await reader.read()) {
    size += it.value.length;
    if (size > UNPACKED_MAX) {
      reader.cancel();
      throw new Error("it holds more than 1 MB");
    }
    parts.push(it.value);
  }
  return JSON.parse(await new Blob(parts).text());
}

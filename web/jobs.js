// What the array is used for: jobs by words, or a fio file.
"use strict";

const BACKUP_AND_MAIL = `[backup]
rw=read
bs=1m
size=50%
time_based
runtime=60

[mail]
rw=randread
bs=4k
iodepth=4
offset=50%
time_based
runtime=60
`;

const USES = [
  { name: "mix", words: "A mix: small random reads and large files, idle and during a scrub" },
  { name: "rand-4k-qd32", words: "Many small random reads at once: databases, virtual machines" },
  { name: "rand-4k-qd1", words: "One small random read after the other: opening programs" },
  { name: "seq-read", words: "One film, or one large copy" },
  { name: "four-streams", words: "Four films at once" },
  { name: "randrw-4k-70-30", words: "A database that also writes: 70 % reads, 30 % writes" },
  { name: "backup-and-mail", words: "A backup while mail is read", text: BACKUP_AND_MAIL },
  { name: "fio", words: "My own fio job file" },
];

/** The jobs of the choice, names and texts; none for the mix. */
function chosen_jobs(catalogue) {
  const use = USES.find((it) => it.name === $("use").value);
  if (use.name === "mix") return [];
  if (use.name === "fio") return [["pasted", $("fio").value]];
  const builtin = catalogue.jobs.find((job) => job.name === use.name);
  return [[use.name, use.text || builtin.text]];
}

/** The job of the picture: of the mix, three readers of different kinds. */
function pictured_job(catalogue) {
  const [job] = chosen_jobs(catalogue);
  if (job) return job[1];
  const reader = (name, options) => `[${name}]\n${options}\ntime_based\nruntime=60\n`;
  return reader("small", "rw=randread\nbs=4k\niodepth=8") + reader("film", "rw=read\nbs=128k")
    + reader("backup", "rw=read\nbs=1m\noffset=50%");
}

import type { Call, ExitCode, Output } from '../../command.ts';
import { canOpen, findProblems, readForDoctor } from '../../doctor/examine.ts';
import { defaultLimits, type Examination, type Finding } from '../../doctor/finding.ts';
import { selectorsOf } from '../../doctor/selector.ts';
import { reportOf } from '../../exit-codes.ts';
import { reportOnStore } from '../../running/store-report.ts';
import type { TargetChoice } from '../../target/choose-target.ts';
import { clean, countOf } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { wrap } from '../../text/table.ts';

const foundSomething = 8;

/** Checks the process, the store and the work in it. Changes nothing. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const choice = call.choose();
  const { findings, checked } = await examine(call, choice);
  if (json) writeJson(terminal.stdout, { target: choice.label, checked, findings });
  else writeFindings(terminal.stdout, choice, { findings, checked });
  return findings.some(({ level }) => level !== 'note') ? foundSomething : 0;
}

/** What was checked: over a server, not the settings of its store. */
interface Checked {
  readonly process: true;
  readonly store: boolean;
  readonly work: boolean;
}

interface Result {
  readonly findings: readonly Finding[];
  readonly checked: Checked;
}

async function examine(call: Call, choice: TargetChoice): Promise<Result> {
  const examination: Examination = {
    nodeVersion: process.version,
    ...selectorsOf(choice),
    limits: defaultLimits,
  };
  const report = choice.kind === 'store' ? await reportOnStore(choice) : undefined;
  const reported = { ...examination, ...(report !== undefined && { report }) };
  const store = report !== undefined;
  if (store && !canOpen(report)) {
    return { findings: findProblems(reported), checked: { process: true, store, work: false } };
  }
  try {
    const { client } = await call.open();
    const reads = await readForDoctor(client);
    return {
      findings: findProblems({ ...reported, reads }),
      checked: { process: true, store, work: true },
    };
  } catch (error) {
    const failed = toFinding(error, choice);
    return {
      findings: [failed, ...findProblems(reported)],
      checked: { process: true, store, work: false },
    };
  }
}

const remedies = {
  server: 'Check that the server runs, the URL and the token.',
  store: 'Check the path or the URL. Restore a damaged store from a backup.',
} as const;

function toFinding(error: unknown, { kind, label }: TargetChoice): Finding {
  const { message, next } = reportOf(error);
  return {
    id: kind === 'server' ? 'server-unreachable' : 'store-unreachable',
    level: 'problem',
    sentence: `The ${kind} ${label} cannot be used: ${message}`,
    remedy: next === undefined || next.includes('perdure doctor') ? remedies[kind] : next,
  };
}

const styles = { problem: 'red', warning: 'yellow', note: 'dim' } as const;

function writeFindings(
  stdout: Output,
  { label }: TargetChoice,
  { findings, checked }: Result,
): void {
  const indent = '  ';
  const paragraph = (text: string): string =>
    wrap(text, stdout.columns - indent.length).join(`\n${indent}`);
  for (const { level, id, sentence, remedy } of findings) {
    stdout.write(`${stdout.style(styles[level], level)}  ${stdout.style('dim', id)}\n`);
    stdout.write(`${indent}${paragraph(sentence)}\n${indent}${paragraph(remedy)}\n\n`);
  }
  const count = (level: Finding['level']) => findings.filter((one) => one.level === level).length;
  const [problems, warnings, notes] = [count('problem'), count('warning'), count('note')];
  stdout.write(
    `${clean(label)}: ${countOf(problems, 'problem')}, ${countOf(warnings, 'warning')}, ${countOf(notes, 'note')}.\n`,
  );
  if (!checked.store) {
    stdout.write('The settings of the store were not checked: run doctor with --store for them.\n');
  }
}

#!/usr/bin/env node
import type { ProcessorFlags, ReplayFlags } from '@brokkr/dataflow/processor/main.ts'
// brokkr …: every program is a subcommand. Commands are loaded when they are used, so that `--help` stays quick.
import { Command } from 'commander'
import type { PreviewFlags } from './commands/flows.ts'
import { tellError } from './output.ts'

const program = new Command('brokkr')
  .description('One control plane for any number of Kubernetes clusters')
  .option('--broker <url>', 'address of the broker (else BROKKR_BROKER_URL, else what `brokkr up` left)')
  .option('--pak-file <file>', 'file with the key (else BROKKR_PAK_FILE, else what `brokkr up` left)')
  .showSuggestionAfterError(true)

program
  .command('up')
  .description('start PostgreSQL, broker, practice cluster, an agent and a demo on this machine')
  .option('--foreground', 'stay in front; Ctrl-C stops everything')
  .option('--lite', 'without the practice cluster')
  .option('--plain', 'one line per change, for logs')
  .option('--dir <folder>', 'where data and keys are kept', '.brokkr')
  .option('--port <port>', 'port of the broker; 0 takes a free one', '3000')
  .option('--kubeconfig <file>', 'use this cluster instead of a practice cluster')
  .option('--database-url <url>', 'use this PostgreSQL instead of an own one')
  .action(async (options: UpFlags) => (await import('./up/up.ts')).up(options))
program
  .command('down')
  .description('stop everything that `brokkr up` started; data are kept')
  .option('--dir <folder>', 'where data and keys are kept', '.brokkr')
  .option('--purge', 'remove the data too')
  .action(async (options: { dir: string; purge?: boolean }) => (await import('./up/down.ts')).down(options))

program
  .command('status')
  .description('what runs, what moves, what is wrong; exit 6 if anything is')
  .action(async () => (await import('./commands/status.ts')).status(globals()))
program
  .command('apply')
  .description('submit manifests as the next revision of a stack')
  .requiredOption('-f, --file <file>', 'manifest file, folder, or - for standard input')
  .requiredOption('--stack <name>', 'the stack; made if it does not exist')
  .option('--generator <name>', 'the generator a new stack belongs to', 'admin-generator')
  .option('-l, --label <label>', 'label of a new stack; may be repeated', (value: string, all: string[]) => [...all, value], [] as string[])
  .option('--wait', 'wait until every agent has applied it')
  .option('--timeout <seconds>', 'how long to wait', '300')
  .action(async (options: ApplyFlags) => (await import('./commands/apply.ts')).apply(globals(), options))
program
  .command('get <what>')
  .description('list stacks, agents or generators')
  .option('-o, --output <form>', 'json or table', 'table')
  .action(async (what: string, options: { output: string }) => (await import('./commands/get.ts')).get(globals(), what, options))
program
  .command('describe <what> <name>')
  .description('everything about one stack')
  .option('-o, --output <form>', 'json or text', 'text')
  .action(async (what: string, name: string, options: { output: string }) =>
    (await import('./commands/describe.ts')).describe(globals(), { what, name, ...options }),
  )

const broker = program.command('broker').description('the broker and its database (settings: BROKKR_CONFIG_FILE, BROKKR__SECTION__KEY)')
broker
  .command('serve', { isDefault: true })
  .description('run the broker; also without a word behind `broker`')
  .action(async () => (await import('@brokkr/broker/main.ts')).runBroker({ env: process.env }))
broker
  .command('migrate')
  .description('bring the schema to this release and end')
  .action(async () => (await import('./commands/broker.ts')).migrateCommand())
broker
  .command('reseal')
  .description('seal everything stored anew under broker.encryption_key, so that older keys can be dropped')
  .action(async () => (await import('./commands/broker.ts')).resealCommand())
const repeated = (value: string, all: string[]) => [...all, value]
const rotate = broker.command('rotate').description('replace a key; needs the database, not a key')
rotate
  .command('admin')
  .description('replace an admin key by a new one, or make one where there is none')
  .option('--name <name>', 'which admin key, where there are several')
  .option('--use-configured-hash', 'store the hash in broker.pak_hash instead of making a key')
  .action(async (options: { name?: string; useConfiguredHash?: boolean }) =>
    (await import('./commands/broker.ts')).rotateAdminCommand(options),
  )
rotate
  .command('generator')
  .description('replace the key of a generator')
  .requiredOption('--name <name>', 'which generator')
  .action(async (options: { name: string }) => (await import('./commands/broker.ts')).rotateGeneratorCommand(options))
rotate
  .command('agent')
  .description('replace the key of an agent')
  .requiredOption('--name <name>', 'which agent')
  .requiredOption('--cluster-name <name>', 'of which cluster')
  .action(async (options: { name: string; clusterName: string }) => (await import('./commands/broker.ts')).rotateAgentCommand(options))
const create = broker.command('create').description('make a key and whom it is for; needs the database, not a key')
create
  .command('admin')
  .description('make an admin key')
  .requiredOption('--name <name>', 'what it is called')
  .option('--readonly', 'it may read, and change nothing')
  .option('--scope <verbs>', 'verbs it is limited to, with commas between: read, deploy, operate, approve, notify, admin')
  .action(async (options: { name: string; readonly?: boolean; scope?: string }) =>
    (await import('./commands/broker.ts')).createAdminCommand(options),
  )
create
  .command('generator')
  .description('make a generator and its key')
  .requiredOption('--name <name>', 'what it is called')
  .option('--description <text>', 'what it is for')
  .action(async (options: { name: string; description?: string }) => (await import('./commands/broker.ts')).createGeneratorCommand(options))
create
  .command('agent')
  .description('make an agent and its key')
  .requiredOption('--name <name>', 'what it is called')
  .requiredOption('--cluster-name <name>', 'the cluster it works in')
  .option('--generator <name>', 'a generator it takes stacks from; may be repeated', repeated, [] as string[])
  .option('-l, --label <label>', 'a label it carries; may be repeated', repeated, [] as string[])
  .action(async (options: { name: string; clusterName: string; generator: string[]; label: string[] }) =>
    (await import('./commands/broker.ts')).createAgentCommand(options),
  )
program
  .command('agent')
  .description('run the agent of one cluster (settings: BROKKR_CONFIG_FILE, BROKKR__AGENT__KEY)')
  .action(async () => (await import('@brokkr/agent/main.ts')).runAgent({ env: process.env }))

const flows = program.command('flows').description('data flows: judge them and try them out')
flows
  .command('validate')
  .description('every problem of the DataFlows and DataFlowCrons in a file, as admission would tell them')
  .requiredOption('-f, --file <file>', 'manifest file, or - for standard input')
  .action(async (options: { file: string }) => (await import('./commands/flows.ts')).validateFlows(options))
flows
  .command('preview')
  .description('what a flow would do with some messages, step by step, without side effects')
  .requiredOption('-f, --file <file>', 'manifest file with one flow')
  .option('--sample <file>', 'payloads, one per line')
  .option('--from-source <count>', 'the newest messages of its source, read without a trace')
  .option('--check-sink', 'ask the sinks whether they would take the records; nothing is written')
  .option('--kubeconfig <file>', 'where secrets are read, with your own rights')
  .option('--allow-loopback', 'let source and sink be on this machine')
  .action(async (options: PreviewFlags) => (await import('./commands/flows.ts')).previewFlows(options))
const dataflow = program.command('dataflow').description('programs of the data plane')
dataflow
  .command('processor')
  .description('run one flow (settings: PROCESSOR_*, LOG_LEVEL)')
  .requiredOption('--spec-path <file>', 'the spec, with its secrets resolved')
  .requiredOption('--namespace <name>', 'namespace of the flow')
  .requiredOption('--name <name>', 'name of the flow')
  .option('--bounded', 'read up to the end seen at the start, then end')
  .option('--metrics-port <port>', 'probes, metrics and progress; 0 takes a free one', '9090')
  .option('--checkpoint-file <file>', 'keep the checkpoint in a file instead of the ConfigMap')
  .action(async (flags: ProcessorFlags) => (await import('@brokkr/dataflow/processor/main.ts')).runProcessor({ flags, env: process.env }))
dataflow
  .command('replay')
  .description('try the dead letters of one flow again, then end')
  .requiredOption('--spec-path <file>', 'the spec, with its secrets resolved')
  .requiredOption('--namespace <name>', 'namespace of the flow')
  .requiredOption('--name <name>', 'name of the flow')
  .option('--uid <uid>', 'uid of the flow: names the group that remembers which letters of a topic are done')
  .option('--from <time>', 'letters of failures at or after this time')
  .option('--to <time>', 'letters of failures up to this time')
  .option('--max <count>', 'at most so many letters')
  .action(async (flags: ReplayFlags) => (await import('@brokkr/dataflow/processor/main.ts')).runReplay({ flags, env: process.env }))
dataflow
  .command('preview')
  .description('serve previews to the broker, on loopback')
  .option('--host <address>', 'address to listen on', '127.0.0.1')
  .option('--port <port>', 'port to listen on', '9092')
  .action(async (options: { host: string; port: string }) =>
    (await import('@brokkr/dataflow/commands.ts')).runPreviewServer({ host: options.host, port: Number(options.port) }),
  )

export interface UpFlags {
  readonly foreground?: boolean
  readonly lite?: boolean
  readonly plain?: boolean
  readonly dir: string
  readonly port: string
  readonly kubeconfig?: string
  readonly databaseUrl?: string
}
export interface ApplyFlags {
  readonly file: string
  readonly stack: string
  readonly generator: string
  readonly label: string[]
  readonly wait?: boolean
  readonly timeout: string
}
export interface Globals {
  readonly broker?: string
  readonly pakFile?: string
}
const globals = (): Globals => program.opts<Globals>()

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = tellError(error)
}

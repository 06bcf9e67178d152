// The commands of flows that work on a cluster, with the caller's own rights in it.
import type { CommandSpec, Exit, OptionSpec } from '../../command.ts'
import { waitOptions } from '../../command.ts'

const flow = { name: 'flow' } as const
const readOptions: readonly OptionSpec[] = [
  { flags: '-n, --namespace <name>', text: 'namespace of the flow, where its name is not unique' },
  {
    flags: '--kubeconfig <file>',
    text: 'cluster of the flows (default: KUBECONFIG, then the cluster of `brokkr up`)',
    completes: 'file',
  },
  { flags: '-o, --output <form>', text: 'form of the output', default: 'table', choices: ['table', 'json'] },
]
const steerOptions: readonly OptionSpec[] = [...readOptions, ...waitOptions]
const letterOptions: readonly OptionSpec[] = [
  ...readOptions,
  { flags: '--count <number>', text: 'how many of the newest dead letters', default: '20' },
  { flags: '--allow-loopback', text: 'allow loopback addresses for the errors sink' },
]
const found: readonly Exit[] = ['notFound', 'notAllowed']
const steered: readonly Exit[] = [...found, 'timedOut']

const pause = (verb: 'pause' | 'resume'): CommandSpec => ({
  path: `flows ${verb}`,
  summary: verb === 'pause' ? 'Stop the processors of a flow; its position is kept.' : 'Start the processors of a paused flow again.',
  args: [flow],
  options: steerOptions,
  examples: [`flows ${verb} orders`, `flows ${verb} orders --wait`, `flows ${verb} orders -n shop`],
  exits: steered,
  load: async () => {
    const { setPaused } = await import('./steer.ts')
    return (cli, [name = ''], options) => setPaused(cli.globals, name, { ...options, paused: verb === 'pause' })
  },
})

export const clusterFlowCommands: readonly CommandSpec[] = [
  {
    path: 'flows list',
    summary: 'List flows with phase, rate, counts and lag.',
    options: readOptions,
    examples: ['flows list', 'flows list -n shop', 'flows list -o json'],
    exits: found,
    load: async () => {
      const { listFlows } = await import('./list.ts')
      return (cli, _args, options) => listFlows(cli.globals, options)
    },
  },
  {
    path: 'flows describe',
    summary: 'Show status, conditions and events of one flow.',
    args: [flow],
    options: readOptions,
    examples: ['flows describe orders', 'flows describe orders -n shop', 'flows describe orders -o json'],
    exits: found,
    load: async () => {
      const { describeFlow } = await import('./describe.ts')
      return (cli, [name = ''], options) => describeFlow(cli.globals, name, options)
    },
  },
  pause('pause'),
  pause('resume'),
  {
    path: 'flows reset',
    summary: 'Read the source from the start, once.',
    args: [flow],
    options: steerOptions,
    examples: ['flows reset orders', 'flows reset orders --wait', 'flows reset orders -n shop'],
    exits: steered,
    load: async () => {
      const { resetFlow } = await import('./steer.ts')
      return (cli, [name = ''], options) => resetFlow(cli.globals, name, options)
    },
  },
  {
    path: 'flows rewind',
    summary: 'Continue at another position.',
    args: [flow],
    options: [
      {
        flags: '--to <position>',
        text: 'earliest, latest, or JSON such as {"time":"2026-01-02T03:04:05Z"} or {"offsets":{"0":12}}',
        isRequired: true,
      },
      ...steerOptions,
    ],
    examples: [
      'flows rewind orders --to earliest',
      'flows rewind orders --to latest --wait',
      `flows rewind orders --to '{"time":"2026-01-02T00:00:00Z"}'`,
    ],
    exits: steered,
    load: async () => {
      const { rewindFlow } = await import('./steer.ts')
      return (cli, [name = ''], options) => rewindFlow(cli.globals, name, options)
    },
  },
  {
    path: 'flows skip',
    summary: 'Drop the message that blocks a flow.',
    args: [flow],
    options: [{ flags: '--position <text>', text: 'position of the blocked message (default: the one in the status)' }, ...steerOptions],
    examples: ['flows skip orders', 'flows skip orders --wait', `flows skip orders --position 'in[0]=7'`],
    exits: steered,
    load: async () => {
      const { skipMessage } = await import('./steer.ts')
      return (cli, [name = ''], options) => skipMessage(cli.globals, name, options)
    },
  },
  {
    path: 'flows replay',
    summary: 'Process the dead letters of a flow again.',
    args: [flow],
    options: [
      { flags: '--from <time>', text: 'dead letters of failures at or after this time' },
      { flags: '--to <time>', text: 'dead letters of failures up to this time' },
      { flags: '--max <count>', text: 'maximum number of dead letters' },
      ...steerOptions,
    ],
    examples: ['flows replay orders', 'flows replay orders --max 100 --wait', 'flows replay orders --from 2026-01-02T00:00:00Z'],
    exits: steered,
    load: async () => {
      const { replayFlow } = await import('./steer.ts')
      return (cli, [name = ''], options) => replayFlow(cli.globals, name, options)
    },
  },
  {
    path: 'flows run',
    summary: 'Start a run of a DataFlowCron now.',
    args: [{ name: 'cron' }],
    options: steerOptions,
    examples: ['flows run nightly', 'flows run nightly --wait', 'flows run nightly -n shop'],
    exits: steered,
    load: async () => {
      const { runCron } = await import('./steer.ts')
      return (cli, [name = ''], options) => runCron(cli.globals, name, options)
    },
  },
  {
    path: 'flows tap',
    summary: 'Show records of a running flow as they leave its transformations: masked ones, or else keys and types.',
    args: [flow],
    options: [
      { flags: '--address <host:port>', text: 'address of a forwarded port 9093 of a pod of the flow' },
      { flags: '--count <number>', text: 'end after this many records' },
      ...readOptions.filter(({ flags }) => !flags.startsWith('-o')),
    ],
    examples: ['flows tap orders', 'flows tap orders --count 5', 'flows tap orders --address 127.0.0.1:9093'],
    exits: found,
    load: async () => {
      const { tapFlow } = await import('./tap.ts')
      return (cli, [name = ''], options) => tapFlow(cli.globals, name, options)
    },
  },
  {
    path: 'flows dead-letters list',
    summary: "List the newest dead letters of a flow; its errors sink is read with the caller's own permissions.",
    args: [flow],
    options: letterOptions,
    examples: ['flows dead-letters list orders', 'flows dead-letters list orders --count 100', 'flows dead-letters list orders -o json'],
    exits: found,
    load: async () => {
      const { listDeadLetters } = await import('./dead-letters.ts')
      return (cli, [name = ''], options) => listDeadLetters(cli.globals, name, options)
    },
  },
  {
    path: 'flows dead-letters show',
    summary: 'Show one dead letter with its message.',
    args: [flow, { name: 'id' }],
    options: letterOptions,
    examples: [
      'flows dead-letters show orders 5f1c',
      'flows dead-letters show orders 5f1c -n shop',
      'flows dead-letters show orders 5f1c -o json',
    ],
    exits: found,
    load: async () => {
      const { showDeadLetter } = await import('./dead-letters.ts')
      return (cli, [name = '', id = ''], options) => showDeadLetter(cli.globals, { name, id }, options)
    },
  },
  {
    path: 'dataflow operator',
    summary: 'Run the operator of DataFlows and DataFlowCrons (settings: OPERATOR_*, PROCESSOR_*, WATCH_*, LOG_LEVEL).',
    examples: ['dataflow operator', 'LOG_LEVEL=debug brokkr dataflow operator', 'WATCH_NAMESPACES=shop brokkr dataflow operator'],
    load: async () => {
      const { runOperator } = await import('@brokkr/dataflow/operator/main.ts')
      return () => runOperator({ env: process.env })
    },
  },
]

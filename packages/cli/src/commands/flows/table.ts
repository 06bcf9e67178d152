// Commands of data flows, and the programs of the data plane.
import type { CommandSpec, OptionSpec } from '../../command.ts'
import { clusterFlowCommands } from './cluster-table.ts'

const specOptions: readonly OptionSpec[] = [
  { flags: '--spec-path <file>', text: 'spec with resolved secrets', isRequired: true, completes: 'file' },
  { flags: '--namespace <name>', text: 'namespace of the flow', isRequired: true },
  { flags: '--name <name>', text: 'name of the flow', isRequired: true },
]
const flow = 'flow.json --namespace shop --name orders'

export const flowCommands: readonly CommandSpec[] = [
  ...clusterFlowCommands,
  {
    path: 'flows validate',
    summary: 'List every problem of the DataFlows and DataFlowCrons in a file, as admission would.',
    options: [{ flags: '-f, --file <file>', text: 'manifest file, or - for standard input', isRequired: true, completes: 'file' }],
    examples: ['flows validate -f flow.yaml', 'flows validate -f flows/', 'cat flow.yaml | brokkr flows validate -f -'],
    load: async () => {
      const { validateFlows } = await import('./flows.ts')
      return (_cli, _args, options) => validateFlows(options)
    },
  },
  {
    path: 'flows preview',
    summary: 'Show the effect of a flow on some messages, step by step, without side effects.',
    options: [
      { flags: '-f, --file <file>', text: 'manifest file with one flow', isRequired: true, completes: 'file' },
      { flags: '--sample <file>', text: 'payloads, one per line', completes: 'file' },
      { flags: '--from-source <count>', text: 'number of latest messages to read from its source, without committing positions' },
      { flags: '--check-sink', text: 'check whether the sinks would accept the records, without writing them' },
      { flags: '--kubeconfig <file>', text: 'cluster from which secrets are read, with your own permissions', completes: 'file' },
      { flags: '--allow-loopback', text: 'allow loopback addresses for source and sink' },
    ],
    examples: [
      'flows preview -f flow.yaml --sample orders.ndjson',
      'flows preview -f flow.yaml --from-source 5',
      'flows preview -f flow.yaml --from-source 5 --check-sink',
    ],
    load: async () => {
      const { previewFlows } = await import('./flows.ts')
      return (_cli, _args, options) => previewFlows(options)
    },
  },
  {
    path: 'dataflow processor',
    summary: 'Run one flow (settings: PROCESSOR_*, LOG_LEVEL).',
    options: [
      ...specOptions,
      { flags: '--bounded', text: 'read up to the current end of the source, then exit' },
      { flags: '--metrics-port <port>', text: 'port of probes, metrics and progress; 0: a free port', default: '9090' },
      { flags: '--tap-port <port>', text: 'port of the tap on the loopback address; 0: a free port', default: '9093' },
      { flags: '--checkpoint-file <file>', text: 'store the checkpoint in a file instead of a ConfigMap', completes: 'file' },
    ],
    examples: [
      `dataflow processor --spec-path ${flow}`,
      `dataflow processor --spec-path ${flow} --bounded`,
      `dataflow processor --spec-path ${flow} --checkpoint-file orders.checkpoint`,
    ],
    load: async () => {
      const { runProcessor } = await import('@brokkr/dataflow/processor/main.ts')
      return (_cli, _args, flags) => runProcessor({ flags, env: process.env })
    },
  },
  {
    path: 'dataflow replay',
    summary: 'Process the dead letters of one flow again, then exit.',
    options: [
      ...specOptions,
      { flags: '--uid <uid>', text: 'uid of the flow: names the consumer group that stores which dead letters are done' },
      { flags: '--from <time>', text: 'dead letters of failures at or after this time' },
      { flags: '--to <time>', text: 'dead letters of failures up to this time' },
      { flags: '--max <count>', text: 'maximum number of dead letters' },
      { flags: '--result-file <file>', text: 'write the counts to this file', completes: 'file' },
    ],
    examples: [
      `dataflow replay --spec-path ${flow}`,
      `dataflow replay --spec-path ${flow} --max 100`,
      `dataflow replay --spec-path ${flow} --from 2026-01-01T00:00:00Z`,
    ],
    load: async () => {
      const { runReplay } = await import('@brokkr/dataflow/processor/main.ts')
      return (_cli, _args, flags) => runReplay({ flags, env: process.env })
    },
  },
  {
    path: 'dataflow preview',
    summary: 'Serve previews to the broker, on loopback.',
    options: [
      { flags: '--host <address>', text: 'address to listen on', default: '127.0.0.1' },
      { flags: '--port <port>', text: 'port to listen on', default: '9092' },
    ],
    examples: ['dataflow preview', 'dataflow preview --port 9192', 'dataflow preview --host ::1'],
    load: async () => {
      const { runPreviewServer } = await import('@brokkr/dataflow/commands.ts')
      return (_cli, _args, options: { host: string; port: string }) => runPreviewServer({ host: options.host, port: Number(options.port) })
    },
  },
]

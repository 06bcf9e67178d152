// Commands of pipelines: `brokkr pipelines` runs the controller, `brokkr pipeline …` are its clients.
import { type CommandSpec, changing, named, type OptionSpec, outputOption, type Run, waitOptions } from '../../command.ts'
import { controllerFlags, toOptionSyntax } from './controller-flags.ts'

const namespaceOption: OptionSpec = { flags: '-n, --namespace <name>', text: 'namespace of the pipeline, where its name is not unique' }
const readOptions = [namespaceOption, outputOption]
const changeOptions = [namespaceOption, outputOption, ...waitOptions]
const pipeline = { name: 'pipeline' } as const
const target = { name: 'pipeline/environment' } as const
const toOption: OptionSpec = {
  flags: '--to <environment>',
  text: 'environment of the run; may be repeated; default: all after the first',
  isRepeated: true,
}
const waiting = ['unhealthy', 'timedOut', ...changing] as const

const decide = (verb: 'approve' | 'reject', path: string): CommandSpec => ({
  path,
  summary: `${verb === 'approve' ? 'Approve' : 'Reject'} the promotion that awaits approval in an environment.`,
  args: [target],
  options: [
    { flags: '--reason <text>', text: 'kept with the decision' },
    { flags: '--revision <revision>', text: 'refuse if another revision waits' },
    ...changeOptions,
  ],
  examples: [`${path} checkout/prod`, `${path} checkout/prod --reason "checked on staging"`, `${path} checkout/prod --wait`],
  exits: waiting,
  load: async () => {
    const { decidePromotion } = await import('./decide.ts')
    return (cli, [text = ''], options) => decidePromotion(cli.globals, text, { ...options, decision: verb })
  },
})

const promote = (path: string): CommandSpec => ({
  path,
  summary: 'Start a run of a revision: by default the one that runs in the first environment.',
  args: [pipeline],
  options: [toOption, { flags: '--revision <revision>', text: 'revision to promote' }, ...changeOptions],
  examples: [`${path} checkout`, `${path} checkout --to prod`, `${path} checkout --to prod --revision 1.4.2 --wait`],
  exits: waiting,
  load: () => startRun('manual'),
})

async function startRun(kind: 'manual' | 'rollback'): Promise<Run> {
  const runs = await import('./runs.ts')
  return (cli, [name = ''], options) => runs.startRun(cli.globals, name, { ...options, kind })
}

const hold = (verb: 'hold' | 'release'): CommandSpec => ({
  path: `pipeline ${verb}`,
  summary: verb === 'hold' ? 'Start no new run until the pipeline is released.' : 'Let a held pipeline start runs again.',
  args: [pipeline],
  options: [
    namespaceOption,
    {
      flags: '--kubeconfig <file>',
      text: 'kubeconfig of the cluster with the pipeline (default: KUBECONFIG, then the context of `brokkr up`)',
      completes: 'file',
    },
  ],
  examples: [`pipeline ${verb} checkout`, `pipeline ${verb} checkout -n shop`, `pipeline ${verb} checkout --kubeconfig ops.yaml`],
  exits: changing,
  load: async () => {
    const { setHold } = await import('./hold.ts')
    return (cli, [name = ''], options) => setHold(cli.globals, name, { ...options, hold: verb === 'hold' })
  },
})

export const pipelineCommands: readonly CommandSpec[] = [
  {
    path: 'pipelines',
    summary: 'Run the pipelines controller (settings: BROKKR_CONFIG_FILE, BROKKR__PIPELINES__KEY, or flags).',
    options: [
      { flags: '--config <file>', text: 'configuration file, instead of BROKKR_CONFIG_FILE', completes: 'file' },
      ...controllerFlags.map((flag) => ({ flags: toOptionSyntax(flag), text: flag.description })),
    ],
    examples: ['pipelines --install-crds', 'pipelines --kubeconfig ~/.kube/config', 'pipelines --broker-url https://brokkr.example.com'],
    load: async () => (await import('./run-controller.ts')).runController,
  },
  {
    path: 'pipeline list',
    summary: 'List pipelines with their environments.',
    options: readOptions,
    examples: ['pipeline list', 'pipeline list -n shop', 'pipeline list -o json'],
    exits: named,
    load: async () => {
      const { listPipelines } = await import('./list.ts')
      return (cli, _args, options) => listPipelines(cli.globals, options)
    },
  },
  {
    path: 'pipeline explain',
    summary: 'Show each target, what holds a pipeline back, and its next step.',
    args: [pipeline],
    options: [{ flags: '--diff', text: 'show the change that the next promotion would commit' }, ...readOptions],
    examples: ['pipeline explain checkout', 'pipeline explain checkout --diff', 'pipeline explain checkout -o json'],
    exits: named,
    load: async () => {
      const { explainPipeline } = await import('./explain.ts')
      return (cli, [name = ''], options) => explainPipeline(cli.globals, name, options)
    },
  },
  // `brokkr approve` is `brokkr pipeline approve`.
  decide('approve', 'approve'),
  decide('reject', 'reject'),
  promote('promote'),
  decide('approve', 'pipeline approve'),
  decide('reject', 'pipeline reject'),
  promote('pipeline promote'),
  {
    path: 'pipeline retry',
    summary: 'Retry the newest promotion into an environment that failed, was rejected or is blocked.',
    args: [target],
    options: readOptions,
    examples: ['pipeline retry checkout/prod', 'pipeline retry checkout/prod -n shop', 'pipeline retry checkout/prod -o json'],
    exits: changing,
    load: async () => {
      const { retryPromotion } = await import('./decide.ts')
      return (cli, [text = ''], options) => retryPromotion(cli.globals, text, options)
    },
  },
  {
    path: 'pipeline abort',
    summary: 'Abort the promotion into an environment that has not ended.',
    args: [target],
    options: readOptions,
    examples: ['pipeline abort checkout/prod', 'pipeline abort checkout/prod -n shop', 'pipeline abort checkout/prod -o json'],
    exits: changing,
    load: async () => {
      const { abortPromotion } = await import('./decide.ts')
      return (cli, [text = ''], options) => abortPromotion(cli.globals, text, options)
    },
  },
  {
    path: 'pipeline rollback',
    summary: 'Bring an earlier revision back into environments and hold the pipeline.',
    args: [pipeline],
    options: [
      { ...toOption, text: 'environment to roll back; may be repeated', isRequired: true },
      {
        flags: '--revision <revision>',
        text: 'revision to go back to; default: the last one that succeeded there and was not rolled back',
      },
      ...changeOptions,
    ],
    examples: [
      'pipeline rollback checkout --to prod',
      'pipeline rollback checkout --to prod --revision 1.4.1',
      'pipeline rollback checkout --to prod --wait',
    ],
    exits: waiting,
    load: () => startRun('rollback'),
  },
  hold('hold'),
  hold('release'),
]

// Commands that start, connect and examine an installation.
import { broker, type CommandSpec, changing, dryRunOption, type OptionSpec, outputOption, waitOptions } from '../../command.ts'
import { inviteOptions } from '../agents/table.ts'

const dirOption: OptionSpec = { flags: '--dir <folder>', text: 'folder for data and secrets', default: '.brokkr', completes: 'file' }

export const setupCommands: readonly CommandSpec[] = [
  {
    path: 'up',
    summary: 'Start PostgreSQL, a broker, local clusters, agents and a demo on this machine.',
    options: [
      { flags: '--foreground', text: 'stay in the foreground; Ctrl-C stops everything' },
      { flags: '--lite', text: 'without a local cluster' },
      { flags: '--clusters <count>', text: 'number of local clusters, 1 to 5', default: '1' },
      { flags: '--plain', text: 'one line per change, for logs' },
      dirOption,
      { flags: '--port <port>', text: 'port of the broker; 0: a free port', default: '3000' },
      { flags: '--kubeconfig <file>', text: 'use this cluster instead of a local one', completes: 'file' },
      { flags: '--database-url <url>', text: 'use this PostgreSQL instead of starting one' },
    ],
    examples: ['up', 'up --lite --port 0', 'up --clusters 3 --foreground'],
    exits: ['unhealthy'],
    load: async () => {
      const { up } = await import('../../up/up.ts')
      return (_cli, _args, options) => up(options)
    },
  },
  {
    path: 'down',
    summary: 'Stop everything that `brokkr up` started; data is kept.',
    options: [dirOption, { flags: '--purge', text: 'delete the data too' }],
    examples: ['down', 'down --purge', 'down --dir demo'],
    load: async () => {
      const { down } = await import('../../up/down.ts')
      return (_cli, _args, options) => down(options)
    },
  },
  {
    path: 'login',
    summary: 'Save a broker and a PAK as the context in use; the PAK comes from --pak-file or standard input.',
    args: [{ name: 'url', isOptional: true }],
    options: [
      { flags: '--name <name>', text: 'name of the context (default: the host name)' },
      { flags: '--link', text: 'print a link that signs a browser in once, instead' },
    ],
    examples: [
      'login https://brokkr.example.com --pak-file ops.pak',
      'login https://brokkr.example.com --name prod < ops.pak',
      'login --link',
    ],
    exits: broker,
    load: async () => (await import('./login.ts')).login,
  },
  {
    path: 'logout',
    summary: 'Remove a saved context and its PAK file.',
    args: [{ name: 'context', isOptional: true, completes: 'context' }],
    examples: ['logout', 'logout prod', 'logout local'],
    exits: ['notFound'],
    load: async () => (await import('./login.ts')).logout,
  },
  {
    path: 'context list',
    summary: 'List saved contexts.',
    options: [outputOption],
    examples: ['context', 'context list', 'context list -o json'],
    isDefault: true,
    load: async () => (await import('./login.ts')).listContexts,
  },
  {
    path: 'context use',
    summary: 'Use another saved context from now on.',
    args: [{ name: 'context', completes: 'context' }],
    examples: ['context use prod', 'context use local', 'context use brokkr.example.com'],
    exits: ['notFound'],
    load: async () => (await import('./login.ts')).selectContext,
  },
  {
    path: 'join',
    summary: 'Install an agent in the cluster of a kubeconfig, so that it joins this broker.',
    options: [
      { flags: '--name <name>', text: 'name of the agent', isRequired: true },
      { flags: '--kubeconfig <file>', text: 'kubeconfig of the cluster (default: KUBECONFIG, then ~/.kube/config)', completes: 'file' },
      { flags: '--context <name>', text: 'context of the kubeconfig (default: its current one)' },
      ...inviteOptions,
      dryRunOption,
      outputOption,
      ...waitOptions,
    ],
    examples: [
      'join --name edge-17 --context fra-2 -l env:prod --generator shop',
      'join --name edge-17 --wait --timeout 2m',
      'join --name edge-17 --kubeconfig edge.yaml --dry-run',
    ],
    exits: ['timedOut', ...changing],
    load: async () => (await import('./join.ts')).join,
  },
  {
    path: 'doctor',
    summary: 'Check everything between this command line and the broker, or one agent, and say how to cure it.',
    options: [{ flags: '--agent <name>', text: 'check this agent', completes: 'agent' }, outputOption],
    examples: ['doctor', 'doctor --agent edge-17', 'doctor -o json'],
    exits: ['notFound', 'unhealthy', ...broker],
    load: async () => (await import('./doctor.ts')).doctor,
  },
  {
    path: 'support-bundle',
    summary: 'Write one file with what is needed to find a fault; secrets are masked and listed.',
    options: [{ flags: '--out <file>', text: 'name of the file', completes: 'file' }],
    examples: [
      'support-bundle',
      'support-bundle --out fault.json.gz',
      'support-bundle --broker https://brokkr.example.com --pak-file ops.pak',
    ],
    exits: broker,
    load: async () => (await import('./support-bundle.ts')).supportBundle,
  },
  {
    path: 'completion',
    summary: 'Print the completion script of a shell; names come from the broker.',
    args: [{ name: 'shell', completes: 'shell' }],
    examples: [
      'completion bash > ~/.local/share/bash-completion/completions/brokkr',
      'completion zsh > ~/.zfunc/_brokkr',
      'completion fish > ~/.config/fish/completions/brokkr.fish',
    ],
    load: async () => (await import('./complete.ts')).completion,
  },
  {
    path: '__complete',
    summary: 'Print what can follow the given words, for completion scripts.',
    args: [{ name: 'words', isOptional: true, isRest: true }],
    examples: ['__complete -- get ""', '__complete -- describe stack ""', '__complete -- stacks ""'],
    isHidden: true,
    load: async () => (await import('./complete.ts')).complete,
  },
  {
    path: 'version',
    summary: 'Print the versions of this command line and of the broker.',
    options: [{ flags: '--client', text: 'only of the command line' }, outputOption],
    examples: ['version', 'version --client', 'version -o json'],
    load: async () => (await import('./version-command.ts')).printVersion,
  },
]

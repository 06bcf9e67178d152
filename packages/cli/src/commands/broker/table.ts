// The programs, and commands that work on the database of the broker.
import { type CommandSpec, changing, labelOption } from '../../command.ts'

const nameOption = { flags: '--name <name>', text: 'name', isRequired: true } as const

export const brokerCommands: readonly CommandSpec[] = [
  {
    path: 'broker serve',
    summary: 'Run the broker (settings: BROKKR_CONFIG_FILE, BROKKR__SECTION__KEY).',
    examples: ['broker', 'broker serve', 'BROKKR_CONFIG_FILE=broker.toml brokkr broker'],
    isDefault: true,
    load: async () => {
      const { runBroker } = await import('@brokkr/broker/main.ts')
      return () => runBroker({ env: process.env })
    },
  },
  {
    path: 'broker migrate',
    summary: 'Migrate the database schema to this release.',
    examples: [
      'broker migrate',
      'DATABASE_URL=postgres://db/brokkr brokkr broker migrate',
      'BROKKR_CONFIG_FILE=broker.toml brokkr broker migrate',
    ],
    load: async () => (await import('./broker.ts')).migrateCommand,
  },
  {
    path: 'broker reseal',
    summary: 'Encrypt all stored secrets with broker.encryption_key again, so that previous keys can be removed.',
    examples: [
      'broker reseal',
      'DATABASE_URL=postgres://db/brokkr brokkr broker reseal',
      'BROKKR_CONFIG_FILE=broker.toml brokkr broker reseal',
    ],
    load: async () => (await import('./broker.ts')).resealCommand,
  },
  {
    path: 'broker rotate admin',
    summary: 'Replace an admin PAK, or create the first one; needs access to the database, not a PAK.',
    options: [
      { flags: '--name <name>', text: 'name of the admin PAK, if there are several' },
      { flags: '--use-configured-hash', text: 'store the hash in broker.pak_hash instead of generating a PAK' },
    ],
    examples: ['broker rotate admin', 'broker rotate admin --name ops', 'broker rotate admin --use-configured-hash'],
    exits: changing,
    load: async () => wrap((await import('./broker.ts')).rotateAdminCommand),
  },
  {
    path: 'broker rotate generator',
    summary: 'Replace the PAK of a generator; needs access to the database, not a PAK.',
    options: [nameOption],
    examples: ['broker rotate generator --name ci', 'broker rotate generator --name ci > ci.pak', 'broker rotate generator --name demo'],
    exits: changing,
    load: async () => wrap((await import('./broker.ts')).rotateGeneratorCommand),
  },
  {
    path: 'broker rotate agent',
    summary: 'Replace the PAK of an agent; needs access to the database, not a PAK.',
    options: [nameOption, { flags: '--cluster-name <name>', text: 'cluster of the agent', isRequired: true }],
    examples: [
      'broker rotate agent --name edge-17 --cluster-name edge-17',
      'broker rotate agent --name edge-17 --cluster-name edge-17 > edge-17.pak',
      'broker rotate agent --name fra-1 --cluster-name fra',
    ],
    exits: changing,
    load: async () => wrap((await import('./broker.ts')).rotateAgentCommand),
  },
  {
    path: 'broker create admin',
    summary: 'Create an admin PAK; needs access to the database, not a PAK.',
    options: [
      nameOption,
      { flags: '--readonly', text: 'allow only reads' },
      { flags: '--scope <verbs>', text: 'comma-separated verbs that it is limited to: read, deploy, operate, approve, notify, admin' },
    ],
    examples: [
      'broker create admin --name ops',
      'broker create admin --name ops > ops.pak',
      'broker create admin --name ci --scope deploy',
    ],
    exits: changing,
    load: async () => wrap((await import('./broker.ts')).createAdminCommand),
  },
  {
    path: 'broker create generator',
    summary: 'Create a generator and its PAK; needs access to the database, not a PAK.',
    options: [nameOption, { flags: '--description <text>', text: 'description of the generator' }],
    examples: [
      'broker create generator --name ci',
      'broker create generator --name ci > ci.pak',
      'broker create generator --name ci --description shop',
    ],
    exits: changing,
    load: async () => wrap((await import('./broker.ts')).createGeneratorCommand),
  },
  {
    path: 'broker create agent',
    summary: 'Create an agent and its PAK; needs access to the database, not a PAK.',
    options: [
      nameOption,
      { flags: '--cluster-name <name>', text: 'cluster of the agent', isRequired: true },
      { flags: '--generator <name>', text: 'generator to register with; may be repeated', isRepeated: true },
      { ...labelOption, text: 'label of the agent; may be repeated' },
    ],
    examples: [
      'broker create agent --name edge-17 --cluster-name edge-17',
      'broker create agent --name edge-17 --cluster-name edge-17 --generator ci',
      'broker create agent --name edge-17 --cluster-name edge-17 -l env:prod',
    ],
    exits: changing,
    load: async () => wrap((await import('./broker.ts')).createAgentCommand),
  },
  {
    path: 'broker create login-link',
    summary: 'Create a link that signs a browser in once, with the rights of an admin PAK; needs access to the database, not a PAK.',
    options: [
      { flags: '--name <name>', text: 'name of the admin PAK, if there are several' },
      { flags: '--readonly', text: 'allow only reads' },
      { flags: '--url <address>', text: 'address by which the browser reaches the broker; without it, that of the settings' },
    ],
    examples: [
      'broker create login-link',
      'broker create login-link --name ops --readonly',
      'broker create login-link --url https://brokkr.example.com',
    ],
    exits: changing,
    load: async () => wrap((await import('./broker.ts')).createLoginLinkCommand),
  },
  {
    path: 'agent',
    summary: 'Run the agent of one cluster (settings: BROKKR_CONFIG_FILE, BROKKR__AGENT__KEY).',
    examples: ['agent', 'BROKKR_CONFIG_FILE=agent.toml brokkr agent', 'BROKKR__AGENT__BROKER_URL=https://brokkr.example.com brokkr agent'],
    load: async () => {
      const { runAgent } = await import('@brokkr/agent/main.ts')
      return () => runAgent({ env: process.env })
    },
  },
]

/** These commands take only options. */
const wrap =
  <T>(run: (options: T) => Promise<void>) =>
  (_cli: unknown, _args: unknown, options: T): Promise<void> =>
    run(options)

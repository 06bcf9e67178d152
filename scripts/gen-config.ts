// Generates docs/reference/configuration.md from the settings tables of all programs: `npm run generate`. The test beside it
// fails if the page differs from the tables.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { agentTable } from '@brokkr/agent/config.ts'
import { brokerTable } from '@brokkr/broker/config.ts'
import { cliTable } from '@brokkr/cli/config.ts'
import { operatorTable } from '@brokkr/dataflow/operator/config.ts'
import { processorTable } from '@brokkr/dataflow/processor/config.ts'
import { pipelinesTable } from '@brokkr/pipelines/config.ts'
import { describeEnvironment, describeSettings, type SettingDescription } from '@brokkr/runtime/config/describe-settings.ts'
import { writeManifests } from './gen-manifests.ts'

export const configurationPage = join(import.meta.dirname, '..', 'docs', 'reference', 'configuration.md')

interface Program {
  readonly title: string
  readonly command: string
  readonly settings: readonly SettingDescription[]
}
export const programs: readonly Program[] = [
  { title: 'Broker', command: 'brokkr broker', settings: describeSettings(brokerTable) },
  { title: 'Agent', command: 'brokkr agent', settings: describeSettings(agentTable) },
  { title: 'Pipelines', command: 'brokkr pipelines', settings: describeSettings(pipelinesTable) },
  { title: 'Data-flow operator', command: 'brokkr dataflow operator', settings: describeEnvironment(operatorTable) },
  { title: 'Data-flow processor', command: 'brokkr dataflow processor', settings: describeEnvironment(processorTable) },
  { title: 'Command line', command: 'brokkr', settings: describeEnvironment(cliTable) },
]

const head = `# Configuration

Generated from the settings tables of the programs by \`npm run generate\`; do not edit.

Broker, agent and pipelines read defaults, then the file named by \`BROKKR_CONFIG_FILE\` (TOML or YAML), then environment variables, then
flags; the last one wins. A variable is the path in upper case with two underscores between sections: \`server.port\` is
\`BROKKR__SERVER__PORT\`. A secret can also be given as a path to a file that holds it: add \`_file\` to the path or \`_FILE\` to the variable.
A reload applies settings marked "reload" without a restart.

A program with a wrong configuration prints every problem and exits with code 2.
`

export function buildConfigurationPage(): string {
  return [head, ...programs.map(buildSection)].join('\n')
}

function buildSection({ title, command, settings }: Program): string {
  const rows = settings.map((setting) => `| ${toCells(setting).map(escapeCell).join(' | ')} |`)
  return [
    `## ${title} (\`${command}\`)\n`,
    '| Setting | Description | Unit | Default | Values |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}

function toCells(setting: SettingDescription): string[] {
  const aliases = setting.path === null ? [] : setting.env.filter((name) => !name.startsWith('BROKKR__'))
  const notes = [...aliases.map((name) => `Also \`${name}\`.`), ...(setting.isHot ? ['Reload.'] : [])]
  return [
    `\`${setting.path ?? setting.env[0]}\``,
    [setting.description, ...notes].filter((text) => text !== '').join(' '),
    setting.unit,
    setting.default === 'required' || setting.default === 'none' ? setting.default : `\`${setting.default}\``,
    setting.range,
  ]
}

const escapeCell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

if (import.meta.main) {
  mkdirSync(dirname(configurationPage), { recursive: true })
  writeFileSync(configurationPage, buildConfigurationPage())
  writeManifests()
}

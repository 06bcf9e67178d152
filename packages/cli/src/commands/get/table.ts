// Commands that list and describe any kind of resource.
import { broker, type CommandSpec, labelOption, named, type OptionSpec, outputOption, watchOption } from '../../command.ts'

const filterOptions: readonly OptionSpec[] = [
  { ...labelOption, text: 'only resources with this label; may be repeated' },
  { flags: '--field <name=value>', text: 'only resources with this value, such as health=failing; may be repeated', isRepeated: true },
]
const listOptions: readonly OptionSpec[] = [...filterOptions, outputOption, watchOption]

export const getCommands: readonly CommandSpec[] = [
  {
    path: 'get',
    summary: 'List resources of one kind, page by page.',
    args: [{ name: 'kind', completes: 'noun' }],
    options: listOptions,
    examples: ['get stacks -l env:prod --field health=failing', 'get agents -o wide', 'get stacks --watch'],
    exits: broker,
    load: async () => (await import('./get.ts')).get,
  },
  {
    path: 'describe',
    summary: 'Show everything about one resource.',
    args: [{ name: 'kind', completes: 'noun' }, { name: 'name' }],
    options: [outputOption, watchOption],
    examples: ['describe stack shop', 'describe stack shop@edge-17 --watch', 'describe agent edge-17 -o yaml'],
    exits: named,
    load: async () => (await import('./describe.ts')).describe,
  },
]

/** `brokkr agents list` is `brokkr get agents`. */
export const listCommand = (noun: string, group: string = noun, verb = 'list'): CommandSpec => ({
  path: `${group} ${verb}`,
  summary: `List ${noun.replace('-', ' ')}.`,
  options: listOptions,
  examples: [`${group} ${verb}`, `${group} ${verb} -o wide`, `${group} ${verb} -o json`],
  exits: broker,
  load: async () => (await import('./get.ts')).listNoun(noun),
})

export const describeCommand = (noun: string, singular: CommandSpec['args'], example: string): CommandSpec => ({
  path: `${noun} describe`,
  summary: `Show everything about one of the ${noun.replace('-', ' ')}.`,
  args: singular ?? [],
  options: [outputOption, watchOption],
  examples: [`${noun} describe ${example}`, `${noun} describe ${example} -o yaml`, `${noun} describe ${example} --watch`],
  exits: named,
  load: async () => (await import('./describe.ts')).describeNoun(noun),
})

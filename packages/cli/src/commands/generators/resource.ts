// Generators in lists and on their own screen.
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import { requireGenerator } from '../../names.ts'
import { age } from '../../output.ts'
import { pairLines, type Resource, toQuery } from '../get/resource.ts'

export const generators: Resource<Generator> = {
  head: ['NAME', 'ACTIVE', 'LAST USE', 'AGE', 'DESCRIPTION'],
  row: (one) => [one.name, one.is_active ? 'yes' : 'no', age(one.last_active_at), age(one.created_at), one.description ?? '-'],
  wideHead: ['ID'],
  wideRow: ({ id }) => [id],
  nameOf: ({ name }) => name,
  fields: ['name'],
  hasLabels: false,
  pages: (client, filter) => client.pages('listGenerators', { query: toQuery(filter) }),
  kinds: ['generator'],
  describe: async (client, name) => {
    const generator = await requireGenerator(client, name)
    const params = { id: generator.id }
    const registrations = await client.listGeneratorRegisteredAgents({ params })
    const stacks = await client.listStacks({ query: { pak_id: generator.id } })
    return {
      value: { generator, registrations, stacks },
      names: [name],
      scope: [`generator:${generator.id}`],
      lines: () =>
        pairLines([
          ['generator', generator.name],
          ['active', generator.is_active ? 'yes' : 'no'],
          ['about', generator.description],
          ['last use', age(generator.last_active_at)],
          ['agents', String(registrations.length)],
          ['stacks', stacks.map((stack) => stack.name).join(', ')],
        ]),
    }
  },
}

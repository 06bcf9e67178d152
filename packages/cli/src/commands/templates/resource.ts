// Templates in lists and on their own screen.
import type { StackTemplate } from '@brokkr/contract/templates/template.ts'
import { listTemplateVersions, requireTemplate } from '../../names.ts'
import { age } from '../../output.ts'
import { pairLines, type Resource, toQuery } from '../get/resource.ts'

export const templates: Resource<StackTemplate> = {
  head: ['NAME', 'VERSION', 'OWNER', 'AGE', 'DESCRIPTION'],
  row: (one) => [
    one.name,
    String(one.version),
    one.generator_id === null ? 'system' : 'generator',
    age(one.created_at),
    one.description ?? '-',
  ],
  wideHead: ['CHECKSUM', 'ID'],
  wideRow: ({ checksum, id }) => [checksum.slice(0, 12), id],
  nameOf: ({ name, version }) => `${name}:${version}`,
  fields: ['name'],
  hasLabels: false,
  pages: (client, filter) => client.pages('listTemplates', { query: toQuery(filter) }),
  kinds: ['template'],
  describe: async (client, name) => {
    const template = await requireTemplate(client, name)
    const versions = await listTemplateVersions(client, template.name)
    return {
      value: template,
      names: [`${template.name}:${template.version}`],
      scope: ['kind:template'],
      lines: () => [
        ...pairLines([
          ['template', `${template.name}:${template.version}`],
          ['about', template.description],
          ['versions', versions.map(({ version }) => version).join(', ')],
          ['parameters', parameterNames(template.parameters_schema)],
        ]),
        '',
        template.template_content.trimEnd(),
      ],
    }
  },
}

function parameterNames(schema: string): string {
  try {
    const { properties = {} } = JSON.parse(schema) as { properties?: Record<string, unknown> }
    return Object.keys(properties).join(', ')
  } catch {
    return 'the schema cannot be read'
  }
}

// Templates: versions, a form from the schema, the rendered manifest while one types, and the submission to a stack.
import type { StackTemplate } from '@brokkr/contract/templates/template.ts'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useCall } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { Icon } from '../parts/icon.tsx'
import { Panel } from '../parts/panel.tsx'
import { Name } from '../parts/text.tsx'
import { EditTemplate } from './edit-template.tsx'
import { TemplateView } from './template-view.tsx'

const route = getRouteApi('/templates')

export function TemplatesScreen() {
  const { id } = route.useSearch()
  const templates = useCall('listTemplates', { query: { limit: 500 } })
  const [isCreating, setCreating] = useState(false)
  const newest = useMemo(() => newestVersions(templates.data ?? []), [templates.data])
  const chosen = (templates.data ?? []).find((template) => template.id === id) ?? newest[0]
  return (
    <>
      <div className="head">
        <h1>Templates</h1>
        <span className="ink-3 head-note">Manifests with parameters, each change a new version</span>
        <div className="acts">
          <button type="button" className="btn go" onClick={() => setCreating(true)}>
            <Icon name="plus" size="m" />
            New template
          </button>
        </div>
      </div>
      <div className="split">
        <Panel title="Templates" count={newest.length} query={templates}>
          {() =>
            newest.length === 0 ? (
              <Empty title="No template yet" command="brokkr templates create web -f web.yaml --schema web.schema.json">
                A template renders one manifest for many stacks.
              </Empty>
            ) : (
              <ul className="pick-list">
                {newest.map((template) => (
                  <li key={template.id}>
                    <Link
                      to="/templates"
                      search={{ id: template.id }}
                      className={template.name === chosen?.name && template.generator_id === chosen.generator_id ? 'on' : ''}
                    >
                      <div className="col grow">
                        <Name text={template.name} className="b" />
                        <span className="ink-3 f12 cut">{template.generator_id === null ? 'for all generators' : 'of one generator'}</span>
                      </div>
                      <span className="mono ink-3">v{template.version}</span>
                      <Age at={template.created_at} />
                    </Link>
                  </li>
                ))}
              </ul>
            )
          }
        </Panel>
        {chosen === undefined ? null : (
          <TemplateView
            key={chosen.id}
            template={chosen}
            versions={(templates.data ?? []).filter((one) => one.name === chosen.name && one.generator_id === chosen.generator_id)}
          />
        )}
      </div>
      {isCreating ? <EditTemplate template={null} onClose={() => setCreating(false)} /> : null}
    </>
  )
}

function newestVersions(templates: readonly StackTemplate[]): StackTemplate[] {
  const groups = Map.groupBy(templates, ({ name, generator_id }) => `${generator_id} ${name}`)
  return [...groups.values()].map((versions) => versions.toSorted((a, b) => b.version - a.version)[0]!)
}

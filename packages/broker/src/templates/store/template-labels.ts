// Labels and annotations of templates. A stack must have all of them to use the template.
import { TemplateAnnotation, TemplateLabel } from '@brokkr/contract/templates/template.ts'
import { count, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

export const listLabels = rows(
  'template_labels.listLabels',
  TemplateLabel,
  (p: Slots<{ template_id: string }>) => `
  select id, template_id, label, created_at from template_labels where template_id = ${p.template_id}::uuid order by created_at, id`,
)

export const addLabel = one(
  'template_labels.addLabel',
  TemplateLabel,
  (p: Slots<{ id: string; template_id: string; label: string }>) => `
  insert into template_labels (id, template_id, label) values (${p.id}, ${p.template_id}, ${p.label}) returning id, template_id, label, created_at`,
)

export const removeLabel = count(
  'template_labels.removeLabel',
  (p: Slots<{ template_id: string; label: string }>) => `
  delete from template_labels where template_id = ${p.template_id}::uuid and label = ${p.label}`,
)

export const listAnnotations = rows(
  'template_labels.listAnnotations',
  TemplateAnnotation,
  (p: Slots<{ template_id: string }>) => `
  select id, template_id, key, value, created_at from template_annotations where template_id = ${p.template_id}::uuid order by key`,
)

export const addAnnotation = one(
  'template_labels.addAnnotation',
  TemplateAnnotation,
  (p: Slots<{ id: string; template_id: string; key: string; value: string }>) => `
  insert into template_annotations (id, template_id, key, value) values (${p.id}, ${p.template_id}, ${p.key}, ${p.value})
  returning id, template_id, key, value, created_at`,
)

export const removeAnnotation = count(
  'template_labels.removeAnnotation',
  (p: Slots<{ template_id: string; key: string }>) => `
  delete from template_annotations where template_id = ${p.template_id}::uuid and key = ${p.key}`,
)

const Counts = z.object({ labels: z.int(), annotations: z.int() })
export const countBoth = one(
  'template_labels.countBoth',
  Counts,
  (p: Slots<{ template_id: string }>) => `
  select (select count(*) from template_labels where template_id = ${p.template_id}::uuid) as labels,
         (select count(*) from template_annotations where template_id = ${p.template_id}::uuid) as annotations`,
)

/** A new version has the labels of the version it was made from, in the same order. */
export const copyLabels = count(
  'template_labels.copyLabels',
  (p: Slots<{ from_id: string; to_id: string }>) => `
  insert into template_labels (id, template_id, label, created_at)
  select gen_random_uuid(), ${p.to_id}::uuid, label, now() + row_number() over (order by created_at, id) * interval '1 microsecond'
  from template_labels where template_id = ${p.from_id}::uuid`,
)
export const copyAnnotations = count(
  'template_labels.copyAnnotations',
  (p: Slots<{ from_id: string; to_id: string }>) => `
  insert into template_annotations (id, template_id, key, value)
  select gen_random_uuid(), ${p.to_id}::uuid, key, value from template_annotations where template_id = ${p.from_id}::uuid`,
)

export const removeAllLabels = count(
  'template_labels.removeAllLabels',
  (p: Slots<{ template_id: string }>) => `delete from template_labels where template_id = ${p.template_id}::uuid`,
)
export const removeAllAnnotations = count(
  'template_labels.removeAllAnnotations',
  (p: Slots<{ template_id: string }>) => `delete from template_annotations where template_id = ${p.template_id}::uuid`,
)

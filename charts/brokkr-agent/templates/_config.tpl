{{/* The configuration file: config, policy and the settings that other values decide. */}}
{{- define "agent.config" -}}
{{- $agent := (.Values.config).agent | default dict -}}
{{- range list "broker_url" "agent_name" "cluster_name" -}}
{{- if not (get $agent .) -}}
{{- fail (printf "config.agent.%s is missing: set config.agent.broker_url, config.agent.agent_name and config.agent.cluster_name" .) -}}
{{- end -}}
{{- end -}}
{{- $keys := (include "brokkr.secretKeys" . | fromJson).keys -}}
{{- if not (or (has "agent.pak" $keys) (has "agent.join_token" $keys)) -}}
{{- fail "the agent has no credential: name a Secret in existingSecret with secretKeys agent.join_token (from `brokkr agents invite`) or agent.pak, or set one of them in secretValues" -}}
{{- end -}}
{{- if and (eq .Values.rbac.preset "namespaced") (not (.Values.policy).allowed_namespaces) -}}
{{- fail "rbac.preset namespaced needs policy.allowed_namespaces: the namespaces in which the agent gets a Role" -}}
{{- end -}}
{{- $managed := dict "preset" .Values.rbac.preset "health_host" "0.0.0.0" "health_port" 8080 "namespace" .Release.Namespace -}}
{{- if .Values.tls.caSecret -}}
{{- $managed = merge $managed (dict "ca_file" "/etc/brokkr/ca/ca.crt") -}}
{{- end -}}
{{- if .Values.tls.clientSecret -}}
{{- $managed = merge $managed (dict "client_cert" "/etc/brokkr/client/tls.crt" "client_key" "/etc/brokkr/client/tls.key") -}}
{{- end -}}
{{- mergeOverwrite (deepCopy (.Values.config | default dict)) (dict "agent" (merge $managed (.Values.policy | default dict))) | toJson -}}
{{- end }}
